#!/usr/bin/env python3
"""Starts processes of the tool with mpirun, each by a command of its own.

usage: mpi_commands_test.py TUTTI
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from mpi_job import mpi_environment

TUTTI = os.path.abspath(sys.argv[1])


class MpiCommandsTest(unittest.TestCase):

    def mpirun(self, *commands, **variables):
        """A process of the tool for each command."""
        words = []
        for command in commands:
            words += [":"] if words else []
            words += ["-n", "1", TUTTI, *command.split()]
        with mpi_environment() as environment:
            return subprocess.run(
                ["mpirun", *words], text=True, check=False,
                capture_output=True, stdin=subprocess.DEVNULL, timeout=100,
                env=environment | variables)

    def test_the_same_command_in_other_words_is_run(self):
        result = self.mpirun("perf all_reduce --max-bytes 64 --iterations 2",
                             "perf --iterations 2 --max-bytes 64 all_reduce")
        self.assertEqual(result.returncode, 0, result)
        _, *rows = result.stdout.splitlines()
        self.assertEqual([row.split()[0] for row in rows], ["4", "16", "64"])

    def test_workers_can_name_what_mpi_runs(self):
        command = ("worker --devices-per-task 2 -- perf all_reduce --check "
                   "--algorithm LocalThenMpi --max-bytes 64 --iterations 2")
        result = self.mpirun(command, command)
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("LocalThenMpi", result.stdout)

    def test_different_commands_are_refused(self):
        result = self.mpirun("perf all_reduce --max-bytes 64", "run barrier")
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(
            result.stderr,
            r"tutti: the tasks run different commands: task 0 \(\S+\): "
            r"perf all_reduce --max-bytes 64, task 1 \(\S+\): run barrier\n")

    def test_an_mpirun_that_is_not_of_this_mpi_is_refused(self):
        """It may say more processes than MPI knows, or other ranks."""
        for lie, told in [("OMPI_COMM_WORLD_SIZE=3", r"process \d of 3"),
                          ("OMPI_COMM_WORLD_RANK=$((1 - OMPI_COMM_WORLD_RANK))",
                           r"process \d of 2")]:
            with self.subTest(lie), mpi_environment() as environment:
                result = subprocess.run(
                    ["mpirun", "-n", "2", "sh", "-c", f'{lie} exec "$@"', "sh",
                     TUTTI, "perf", "all_reduce", "--bytes", "64"],
                    text=True, check=False, capture_output=True,
                    stdin=subprocess.DEVNULL, timeout=100, env=environment)
                self.assertNotEqual(result.returncode, 0, result)
                self.assertEqual(result.stdout, "")
                self.assertRegex(
                    result.stderr,
                    "tutti: the variables of mpirun say that this is "
                    rf"{told}, MPI that it is process \d of 2: is it the "
                    "mpirun of the Open MPI that tutti was linked with")

    def test_processes_that_tune_make_rules_for_such(self):
        """The library chooses what their table says, also by their rules.

        Among three MPI's costs lead to another choice than gRPC's.
        """
        with tempfile.TemporaryDirectory() as folder:
            rules = pathlib.Path(folder, "rules.json")
            tune = ("tune all_reduce --max-bytes 2K --rounds 1 --iterations 1 "
                    f"--output {rules}")
            result = self.mpirun(tune, tune, tune)
            self.assertEqual(result.returncode, 0, result)
            written = json.loads(rules.read_text())
            self.assertEqual({(rule["layout"], rule["one_process"])
                              for rule in written["rules"]}, {("3x1", False)})
            rows = [re.split(" {2,}", line)
                    for line in result.stdout.splitlines()
                    if line.startswith("all_reduce ")]
            self.assertEqual([row[2] for row in rows],
                             ["4", "32", "256", "2048"])
            perf = "perf all_reduce --max-bytes 2K --factor 8 --iterations 1"
            for column, options in [(5, ""), (6, f" --rules {rules}")]:
                result = self.mpirun(perf + options + " --json", perf,
                                     perf)
                self.assertEqual(result.returncode, 0, result)
                self.assertEqual(
                    [row["algorithm"] for row in json.loads(result.stdout)],
                    [row[column].split()[0] for row in rows])

    def test_processes_have_the_layout_that_they_tune(self):
        with tempfile.TemporaryDirectory() as folder:
            rules = pathlib.Path(folder, "rules.json")
            command = f"tune barrier --layout 1x2 --rounds 1 --output {rules}"
            result = self.mpirun(command, command)
            self.assertNotEqual(result.returncode, 0, result)
            self.assertIn("tutti: --layout does not go with a cluster",
                          result.stderr)
            self.assertFalse(rules.exists())

    def test_a_single_process_tunes_as_without_mpirun(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "rules.json")
            result = self.mpirun(
                f"tune all_reduce --layout 1x2 --bytes 64 --rounds 1 "
                f"--output {file}")
            self.assertEqual(result.returncode, 0, result)
            rules = json.loads(file.read_text(encoding="utf-8"))["rules"]
            self.assertEqual([(rule["layout"], rule["one_process"])
                              for rule in rules], [("1x2", True)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
