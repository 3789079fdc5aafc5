#!/usr/bin/env python3
"""The process of in_process.py in which TensorFlow's collectives run.

usage: tensorflow_devices_worker.py FOLDER DEVICES

FOLDER is where TensorFlow is installed; each of so many members is a virtual CPU
device of this process. Understands what tensorflow_worker.py does.
"""

import os
import sys

from tensorflow_worker import Server


class DevicesServer(Server):

    def reduce(self, tensor, key):
        # Version 2 waits forever where the members share a function.
        return self.tf.raw_ops.CollectiveReduce(
            input=tensor, group_size=self.num_ranks, group_key=1,
            instance_key=key, merge_op="Add", final_op="Id", subdiv_offsets=[0],
            communication_hint="ring")


def main(folder, num_devices):
    sys.path.insert(0, folder)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import tensorflow as tf
    processor, = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(
        processor, [tf.config.LogicalDeviceConfiguration()] * num_devices)
    print(f"READY TensorFlow {tf.__version__}", flush=True)
    DevicesServer(
        tf, {rank: f"/device:CPU:{rank}" for rank in range(num_devices)},
        num_devices).serve()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
