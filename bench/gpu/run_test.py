#!/usr/bin/env python3
"""Tests the script that runs the suite, with programs that only pretend.

usage: run_test.py RUN_SH
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN_SH = os.path.abspath(sys.argv[1])

# A program that ends with the status in a file beside it.
PROGRAM = """#!/bin/sh
name=$(basename "$0")
echo "$name $*"
case ${1:-} in *=json:*) file=${1#*=json:} ;; *_out=*) file=${1#*=} ;; esac
[ -z "${file:-}" ] || echo '{"of": "'"$name"'"}' >"$file"
exit "$(cat "$0.status")"
"""

# Ends well without running its program, or says that it found something.
SANITIZER = """#!/bin/sh
echo "compute-sanitizer $*"
[ "$2" != "${BAD_TOOL:-}" ] || exit 9
"""


class RunTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.suite = self.root / "a suite"
        self.suite.mkdir()
        shutil.copy(RUN_SH, self.suite / "run.sh")
        for name in "gpu_checks", "gpu_bench":
            self.add_program(self.suite / name, PROGRAM)
        (self.suite / "version.txt").write_text('one "that" works\n')
        self.set_statuses()

    def add_program(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def set_statuses(self, checks=0, bench=0):
        (self.suite / "gpu_checks.status").write_text(str(checks))
        (self.suite / "gpu_bench.status").write_text(str(bench))

    def run_script(self, *args, **environment):
        """The exit status and what it printed."""
        result = subprocess.run(
            [self.suite / "run.sh", *args], check=False, text=True, timeout=60,
            cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin", **environment})
        return result.returncode, result.stdout

    def results(self, folder="results"):
        return json.loads((self.root / folder / "results.json").read_text())

    def test_all_results_are_in_one_file(self):
        status, text = self.run_script()
        self.assertEqual(status, 0, text)
        results = self.results()
        self.assertEqual(results["version"], 'one "that" works')
        self.assertEqual(results["checks"], {"of": "gpu_checks"})
        self.assertEqual(results["bench"], {"of": "gpu_bench"})
        self.assertTrue(results["passed"])
        self.assertEqual(sorted(os.listdir(self.root / "results")),
                         ["results.json", "results.txt"])
        self.assertEqual((self.root / "results/results.txt").read_text(), text)
        self.assertIn("ALL PASSED", text)

    def test_results_go_where_one_says(self):
        self.assertEqual(self.run_script("else where/deep")[0], 0)
        self.assertTrue(self.results("else where/deep")["passed"])

    def test_a_failure_is_a_failure(self):
        for statuses in [{"checks": 1}, {"bench": 1}]:
            self.set_statuses(**statuses)
            status, text = self.run_script()
            self.assertEqual(status, 1, text)
            self.assertFalse(self.results()["passed"])
            self.assertIn("gpu_bench --", text)

    def test_without_a_gpu_nothing_else_runs(self):
        self.set_statuses(checks=3)
        status, text = self.run_script()
        self.assertEqual(status, 3, text)
        self.assertNotIn("gpu_bench --", text)
        self.assertEqual(os.listdir(self.root / "results"), ["results.txt"])

    def test_the_sanitizer_is_found_in_cuda_home(self):
        cuda = self.root / "cuda"
        self.add_program(cuda / "bin/compute-sanitizer", SANITIZER)
        status, text = self.run_script(CUDA_HOME=str(cuda))
        self.assertEqual(status, 0, text)
        self.assertRegex(text, "compute-sanitizer --tool racecheck .*gpu_checks "
                         "--short")
        self.assertEqual(self.results()["sanitizer"],
                         {"memcheck": "passed", "racecheck": "passed"})
        status, text = self.run_script(CUDA_HOME=str(cuda), BAD_TOOL="memcheck")
        self.assertEqual(status, 1, text)
        self.assertEqual(self.results()["sanitizer"],
                         {"memcheck": "failed", "racecheck": "passed"})

    @unittest.skipIf(os.path.exists("/usr/local/cuda/bin/compute-sanitizer"),
                     "there is one")
    def test_without_a_sanitizer_that_is_said(self):
        status, text = self.run_script()
        self.assertEqual(status, 0, text)
        self.assertIn("LEFT OUT: there is no compute-sanitizer", text)
        self.assertEqual(self.results()["sanitizer"]["memcheck"], "absent")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
