#!/usr/bin/env python3
"""One of the processes that processes.py compares: TensorFlow's collectives.

usage: tensorflow_worker.py FOLDER ADDRESS,... TASK

FOLDER is where TensorFlow is installed. Understands what serve_calls.h says;
"all_reduce" makes one collective per call of a tf.function, "chained" CHAIN of
them, each of the result of the one before, and says the time of one.
"""

import json
import os
import sys
import time

CHAIN = 20


def element_of(np, rank, count):
    return np.arange(count, dtype=np.int64) % 1000 + rank + 1


def make_function(tf, spec, devices, instance_keys, reduce):
    """Of a tensor for each of the devices, on which it is reduced."""

    def reduce_on(device, tensor):
        with tf.device(device):
            for key in instance_keys:
                tensor = reduce(tensor, key)
        return tensor

    @tf.function(input_signature=[[spec] * len(devices)])
    def run(tensors):
        return [reduce_on(*pair) for pair in zip(devices, tensors)]

    return run


class Server:
    """The members of this process: `devices` are their names, by rank."""

    def __init__(self, tf, devices, num_ranks):
        self.tf = tf
        self.devices = devices
        self.num_ranks = num_ranks
        self.functions = {}  # By how many are chained, and by count.
        self.next_key = 1
        self.last_count = None
        self.tensors, self.total = [], None

    def function(self, chain, count):
        if (chain, count) not in self.functions:
            keys = range(self.next_key, self.next_key + chain)
            self.next_key += chain
            spec = self.tf.TensorSpec([count], self.tf.float32)
            self.functions[chain, count] = make_function(
                self.tf, spec, list(self.devices.values()), keys, self.reduce)
        return self.functions[chain, count]

    def reduce(self, tensor, key):
        return self.tf.raw_ops.CollectiveReduceV2(
            input=tensor, group_size=self.num_ranks, group_key=1,
            instance_key=key, ordering_token=[], merge_op="Add", final_op="Id",
            communication_hint="ring")

    def data(self, count):
        """The tensors of the members, and their sum; the same as the last time
        for the same count."""
        if self.last_count != count:
            import numpy as np  # Comes with TensorFlow.
            self.tensors = []
            for rank, device in self.devices.items():
                with self.tf.device(device):
                    self.tensors.append(self.tf.constant(
                        element_of(np, rank, count), self.tf.float32))
            self.total = sum(element_of(np, rank, count)
                             for rank in range(self.num_ranks))
            self.last_count = count
        return self.tensors, self.total

    def run(self, words):
        chain = {"all_reduce": 1, "chained": CHAIN}[words[0]]
        count, warmup, calls = (int(words[1]) // 4, int(words[2]),
                                int(words[3]))
        function = self.function(chain, count)
        tensors, total = self.data(count)
        times = []
        for i in range(warmup + calls):
            begin = time.perf_counter_ns()
            outputs = function(tensors)  # Returns when it is done.
            end = time.perf_counter_ns()
            if i >= warmup:
                times.append((end - begin) // chain)
        # Each of the chain but the first multiplies what all have.
        wanted = (total * float(self.num_ranks) ** (chain - 1)).astype(
            "float32")
        wrong = sum(int((output.numpy() != wanted).sum())
                    for output in outputs)
        if wrong:
            raise ValueError(f"{wrong} elements are wrong")
        return times

    def serve(self):
        for line in sys.stdin:
            try:
                print("OK", *self.run(line.split()), flush=True)
            except Exception as error:  # Whatever TensorFlow comes up with.
                print("ERROR", " ".join(str(error).split()), flush=True)


def main(folder, addresses, task):
    sys.path.insert(0, folder)
    addresses = addresses.split(",")
    os.environ["TF_CONFIG"] = json.dumps({
        "cluster": {"worker": addresses},
        "task": {"type": "worker", "index": task}})
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import tensorflow as tf
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation
        .RING)
    # Starts the server of this task, and waits for the others.
    strategy = tf.distribute.MultiWorkerMirroredStrategy(
        communication_options=options)
    print(f"READY TensorFlow {tf.__version__}", flush=True)
    device = f"/job:worker/replica:0/task:{task}/device:CPU:0"
    Server(tf, {task: device}, strategy.num_replicas_in_sync).serve()
    os._exit(0)  # Nobody is to wait for the other task.


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
