#!/usr/bin/env python3
"""Runs the suite's program where it sees no GPU.

usage: gpu_suite_test.py GPU_SUITE
"""

import os
import subprocess
import sys
import unittest

GPU_SUITE = os.path.abspath(sys.argv[1])


class GpuSuiteTest(unittest.TestCase):

    def run_suite(self, *args):
        # Hides those that there are.
        return subprocess.run(
            [GPU_SUITE, *args], check=False, text=True, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})

    def test_says_that_there_is_no_gpu(self):
        for command in ["check", "bench"]:
            result = self.run_suite(command)
            self.assertEqual((result.returncode, result.stdout), (3, ""))
            self.assertRegex(result.stderr, r"\Agpu_suite: no GPU: [^\n]+\n\Z")

    def test_says_what_is_wrong_with_the_command_line(self):
        for args in [[], ["dance"], ["check", "--colour"], ["bench", "--short"]]:
            result = self.run_suite(*args)
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
            self.assertRegex(result.stderr, r"\Agpu_suite: [^\n]+\n\Z")

    def test_teaches_itself(self):
        result = self.run_suite("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("check", result.stdout)
        self.assertLess(max(map(len, result.stdout.split("\n"))), 81)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
