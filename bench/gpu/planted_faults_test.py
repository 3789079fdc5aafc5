#!/usr/bin/env python3
"""The checks find each planted fault, and say what a machine lacks.

usage: planted_faults_test.py GPU_CHECKS_TEST
"""

import os
import subprocess
import sys
import unittest

CHECKS = os.path.abspath(sys.argv[1])


def run(check, *flags):
    """The exit status and the text of the checks whose names match."""
    result = subprocess.run(
        [CHECKS, f"--gtest_filter={check}", *flags], check=False, text=True,
        timeout=300, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return result.returncode, result.stdout


class PlantedFaultsTest(unittest.TestCase):

    def must_find(self, fault, check, *words):
        status, text = run(check, f"--fault={fault}")
        self.assertEqual(status, 1, (fault, check, text))
        self.assertNotIn("[       OK ]", text)
        for each in words:
            self.assertIn(each, text)

    def test_faults_of_kernels(self):
        self.must_find("reduce", "Gpu/ReduceKernels.*/0_sum_of_float16",
                       "1 inputs and 8 outputs", "output ")
        self.must_find("copy", "Gpu/CopyKernels.*/0",
                       "memory around the buffers")
        self.must_find("reduce", "*/LocalChecks.GpuLocalReduce/8OnOneGpu",
                       "rank 0: byte ")
        self.must_find("graph", "GraphKernels.*", "output ")
        for name in "GpuLocalBroadcast", "GpuLocalGather":
            self.must_find("misaligned", f"*/LocalChecks.{name}/4OnOneGpu",
                           ": byte ")

    def test_faults_of_streams(self):
        for check in ("*/LocalChecks.GpuLocalBroadcast/4OnOneGpu",
                      "*/LocalChecks.GpuLocalGather/4OnOneGpu",
                      "*/LocalChecks.GpuLocalReduceManyInARow/4OnOneGpu",
                      "DeviceChecks.StreamsRunInTheOrderThatIsAskedFor"):
            self.must_find("order", check)
        notify = "DeviceChecks.NotifyWhenDoneComesAfterWhatTheStreamHad"
        self.must_find("early_call", notify, "the bytes read")
        self.must_find("no_call", notify, "NotifyWhenDone")
        # Rather than hanging where the streams are held.
        self.must_find(
            "wait", "*/RingTraceChecks.*/4",
            "a call of the host waits for a stream: the calls had not "
            "returned 10s after")

    def test_faults_of_pinned_memory_are_found_between_tasks_alone(self):
        status, text = run("*/ScheduleChecks.*/2OnOneGpu_RingReduce",
                           "--fault=staging")
        self.assertEqual(status, 0, text)
        for check in ("*/1Devices_RingReduce", "*/2Devices_HierarchicalRingReduce",
                      "*/1Devices_TreeReduce", "HybridCheck.*"):
            self.must_find("staging", check, ": byte ")

    def test_faults_of_nccl(self):
        self.must_find("nccl", "*/NcclChecks.*/All_*:*/NcclTaskChecks.*",
                       "rank 0: byte ", "12 FAILED TESTS")
        self.must_find("nccl_init", "*/NcclChecks.*/All_NcclReduce",
                       "a planted fault")
        self.must_find("slow_abort", "AbortChecks.*", "6s")
        self.must_find("hasty_init", "AbortChecks.EndACommunicator*",
                       "no communicator without rank 1")

    def must_leave_out(self, check, *flags, words):
        status, text = run(check, *flags)
        self.assertEqual(status, 0, text)
        self.assertNotIn("[       OK ]", text)
        self.assertIn(words, text)

    def test_what_the_machine_lacks_is_said(self):
        one, unlinked = "--gpus=1", "--unlinked"
        self.must_leave_out("*AllGpus*-*/NcclChecks.*", one,
                            words="there is one GPU")
        self.must_leave_out("*/LocalChecks.*/AllGpus", unlinked,
                            words="GPU 0 has no link to GPU 1")
        self.must_leave_out("*/NcclTaskChecks.*", "--gpus=2",
                            words="there are 2 GPUs of 4")
        self.must_leave_out("*/Nccl*:AbortChecks.*", "--nccl=none",
                            words="no libnccl.so.2")
        self.must_leave_out("AbortChecks.*", "--nccl=blocking",
                            words="it is old")

    def test_nccl_passes_where_its_communicators_block(self):
        status, text = run("*/Nccl*", "--nccl=blocking")
        self.assertEqual(status, 0, text)
        self.assertIn("[       OK ]", text)
        self.assertNotIn("SKIPPED", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
