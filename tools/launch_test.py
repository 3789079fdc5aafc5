#!/usr/bin/env python3
"""Starts and stops several processes of the tool as a user would.

usage: launch_test.py TUTTI
"""

import fcntl
import json
import os
import pathlib
import re
import signal
import subprocess
import time

from tutti_testing import TUTTI, ToolTest, main

PERF = ["--", "perf", "all_reduce"]


class LaunchTestCase(ToolTest):

    def refuse(self, *args, variables=None):
        """The one line that says what is wrong with the command line."""
        result = self.run_tool(*args, variables=variables)
        self.assertEqual(result.returncode, 2, result)
        self.assertFalse(result.stdout)
        self.assertRegex(result.stderr,
                         r"\Atutti: [^\n]+ \(see `[^`\n]+ --help`\)\n\Z")
        self.assertEqual(result.stderr.count("(see "), 1)
        return result.stderr


class CommandLinesTest(LaunchTestCase):
    """What is wrong is said once, before any process starts."""

    def test_the_command_is_checked_before_it_is_launched(self):
        for args, wanted in [
                ([], "--tasks is missing: how many processes"),
                (["--tasks", 0, *PERF], '"0" is no whole number from 1 to'),
                (["--tasks", "x", *PERF], '"x" is no whole number'),
                (["--tasks", 2], "wanted a command after --"),
                (["--tasks", 2, "--"], "wanted a command after --"),
                (["--tasks", 2, "perf"],
                 'unexpected argument "perf"; wanted options only, and a '
                 "command after --"),
                (["--tasks", 2, "--", "info"],
                 "info takes no part in a cluster; wanted perf, run or tune"),
                (["--tasks", 2, "--", "launch", "--tasks", 2, *PERF],
                 "launch takes no part in a cluster"),
                (["--tasks", 2, "--", "prf"], 'unknown command "prf"'),
                (["--tasks", 2, "--", "perf"], "wanted a COLLECTIVE"),
                (["--tasks", 2, *PERF, "--chekc"], 'unknown option "--chekc"'),
                (["--tasks", 2, "--grace", -1, *PERF], "--grace"),
                (["--tasks", 2, "--cluster", "a:1", *PERF],
                 'unknown option "--cluster"')]:
            with self.subTest(args):
                self.assertIn(wanted, self.refuse("launch", *args))

    def test_what_all_tasks_are_told_is_checked_before_any_starts(self):
        for option, value in [("--devices-per-task", 0), ("--detect", "medium"),
                              ("--start-timeout", 0), ("--tls-cert", "c.pem")]:
            with self.subTest(option):
                error = self.refuse("launch", "--tasks", 3, option, value, *PERF)
                self.assertIn(option, error)
                self.assertIn("(see `tutti launch --help`)", error)
        self.assertIn("TUTTI_DETECT", self.refuse(
            "launch", "--tasks", 3, *PERF,
            variables={"TUTTI_DETECT": "bogus"}))

    def test_the_help_to_read_is_that_of_the_wrong_command(self):
        self.assertIn("(see `tutti perf --help`)",
                      self.refuse("launch", "--tasks", 2, "--", "perf"))
        self.assertIn("(see `tutti launch --help`)", self.refuse("launch"))
        self.assertIn("(see `tutti perf --help`)",
                      self.refuse("worker", "--cluster", "localhost:1", "--",
                                  "perf"))
        self.assertIn("(see `tutti worker --help`)", self.refuse("worker"))

    def test_the_help_of_the_command_is_printed_once(self):
        for args in (["launch", "--tasks", 3],
                     ["worker", "--cluster", "localhost:1"]):
            result = self.run_tool(*args, "--", "perf", "--help")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(result.stdout.count("Usage: tutti perf"), 1)

    def test_who_takes_part_is_checked(self):
        two = ["--cluster", "localhost:1,localhost:2"]
        for args, wanted in [
                ([], "wanted to know who takes part"),
                (two, "wanted to know which of the 2 tasks this is"),
                ([*two, "--task", 2], "--task: there is no task 2"),
                ([*two, "--task", 0, "--detect", "slow"],
                 '--detect: "slow" is neither default nor fast'),
                (["--cluster", "localhost"], "--cluster: the address of task 0"),
                (["--cluster", "host1:7000"], "--insecure")]:
            with self.subTest(args):
                self.assertIn(wanted, self.refuse("worker", *args, *PERF))

    def test_commands_can_be_told_who_takes_part(self):
        self.assertIn("wanted to know who takes part",
                      self.refuse("perf", "all_reduce", "--task", 0))
        self.assertIn("--devices does not go with a cluster",
                      self.refuse("perf", "all_reduce", "--cluster",
                                  "localhost:1", "--devices", 2))
        tune = ["tune", "--output", "rules.json"]
        two = ["--cluster", "localhost:1,localhost:2", "--task", 0]
        self.assertIn("--layout does not go with a cluster",
                      self.refuse(*tune, *two, "--layout", "1x2"))
        self.assertIn("wanted --layout 1x3",
                      self.refuse(*tune, "--cluster", "localhost:1",
                                  "--devices-per-task", 3))
        self.assertIn("--task goes to the worker",
                      self.refuse("worker", "--cluster", "localhost:1", *PERF,
                                  "--task", 0))

    def test_files_and_variables_are_named(self):
        file = self.root / "cluster.json"
        file.write_text(json.dumps({"tasks": ["localhost:1"], "detect": "no"}))
        self.assertIn('cluster.json: detect: "no" is neither',
                      self.refuse("worker", "--cluster-file", file, *PERF))
        file.write_text("{")
        self.assertIn("cluster.json: not JSON",
                      self.refuse("worker", *PERF, variables={
                          "TUTTI_CLUSTER_FILE": "cluster.json"}))
        self.assertIn('TUTTI_TASK: "x" is no whole number',
                      self.refuse("worker", *PERF, variables={
                          "TUTTI_TASK": "x", "TUTTI_CLUSTER": "localhost:1"}))
        self.assertIn('SLURM_STEP_NODELIST: "n[" is no list',
                      self.refuse("worker", "--insecure", *PERF, variables={
                          "SLURM_PROCID": "0", "SLURM_STEP_NODELIST": "n[",
                          "SLURM_STEP_TASKS_PER_NODE": "1"}))

    def test_an_mpirun_that_is_not_open_mpis_is_refused(self):
        hydra = {"PMI_SIZE": "2", "PMI_RANK": "1", "MPI_LOCALNRANKS": "2",
                 "MPI_LOCALRANKID": "1"}
        tune = ["tune", "barrier", "--layout", "1x2", "--output", "rules.json"]
        for words in [PERF[1:], ["run", "barrier"], tune]:
            error = self.refuse(*words, variables=hydra)
            self.assertIn("MPI_LOCALNRANKS is set and PMI_SIZE is 2: ", error)
            self.assertIn("the mpirun of the Open MPI that", error)
        alone = ["run", "barrier", "--devices", 2]
        for words, variables in [
                (alone, hydra | {"PMI_SIZE": "1"}),
                (alone, {"PMI_SIZE": "2", "PMI_RANK": "1"}),  # Or Slurm's.
                (["launch", "--tasks", 2, "--", "run", "barrier"], hydra)]:
            with self.subTest(words, **variables):
                result = self.run_tool(*words, variables=variables)
                self.assertEqual(result.returncode, 0, result)

    def test_variables_concern_no_command_that_does_not_ask(self):
        result = self.run_tool("run", "barrier", "--devices", 2,
                               variables={"TUTTI_CLUSTER": "host1:1,host2:2",
                                          "TUTTI_TASK": "0"})
        self.assertEqual(result.returncode, 0, result)


def tuned_rows(text):
    """The rows of the table of tune, as lists of cells."""
    lines = text.splitlines()
    return [re.split(r" {2,}", line) for line in lines[1:-2]]


class TuneTest(LaunchTestCase):

    def tune(self, *args, launch=("--tasks", 2)):
        return self.run_tool("launch", *launch, "--", "tune", *args,
                             "--max-bytes", 2048, "--rounds", 1,
                             "--iterations", 1)

    def perf(self, *launch, variables):
        """The algorithm for each size."""
        result = self.run_tool(
            "launch", *launch, *PERF, "--max-bytes", 2048, "--factor", 8,
            "--iterations", 1, "--json", variables=variables)
        self.assertEqual(result.returncode, 0, result)
        return {row["bytes"]: row["algorithm"]
                for row in json.loads(result.stdout)}

    def explain(self, num_bytes):
        result = self.run_tool("explain", "all_reduce", "--layout", "2x2",
                               "--rules", "rules.json", "--bytes", num_bytes,
                               "--json")
        self.assertEqual(result.returncode, 0, result)
        return json.loads(result.stdout)

    def test_processes_make_rules_that_choose_for_such(self):
        launch = "--tasks", 2, "--devices-per-task", 2
        result = self.tune("all_reduce", "--output", "rules.json",
                           launch=launch)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = tuned_rows(result.stdout)
        self.assertEqual([row[:3] for row in rows],
                         [["all_reduce", "2x2", str(size)]
                          for size in (4, 32, 256, 2048)])
        written = json.loads((self.root / "rules.json").read_text())
        self.assertEqual({(rule["layout"], rule["one_process"])
                          for rule in written["rules"]}, {("2x2", False)})
        self.assertNotIn("past_caches_from_bytes", written)

        # The library chooses what the table says, without the rules and by
        # them.
        for column, variables in [(5, {}), (6, {"TUTTI_RULES": "rules.json"})]:
            self.assertEqual(
                self.perf(*launch, variables=variables),
                {int(row[2]): row[column].split()[0] for row in rows})
        for row in rows:
            explanation = self.explain(row[2])
            self.assertEqual(explanation["chosen"], row[6].split()[0])
            self.assertEqual(len(explanation["rules"]), 1)

    def test_a_file_that_cannot_be_written_ends_all(self):
        result = self.tune("barrier", "--output", "/dev/null/rules.json")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"tutti: task \d failed with exit "
                         r"status 1: (task 0 \(\S+\): )?/dev/null: ")

    def test_one_task_measures_as_a_process_alone(self):
        result = self.tune("barrier", "--layout", "1x3", "--output",
                           "rules.json", launch=("--tasks", 1))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        written = json.loads((self.root / "rules.json").read_text())
        self.assertEqual({(rule["layout"], rule["one_process"])
                          for rule in written["rules"]}, {("1x3", True)})
        self.assertIn("past_caches_from_bytes", written)


class ProcessesTest(LaunchTestCase):

    def test_errors_are_repeated_last_with_their_status(self):
        result = self.run_tool("launch", "--tasks", 3, "--", "run",
                               "all_reduce", "--output", "out", "--input",
                               "none.npy")
        self.assertEqual(result.returncode, 1, result)
        self.assertFalse(result.stdout)
        *lines, last = result.stderr.splitlines()
        self.assertRegex(lines[0], r"\A\[\d\] tutti: .*none\.npy")
        self.assertRegex(
            last, r"\Atutti: task \d failed with exit status 1: .*none\.npy")

    def test_words_reach_the_tasks_as_they_are(self):
        result = self.run_tool("launch", "--tasks", 1, "--", "run", "all_reduce",
                               "--output", "out", "--input", "[a,b] c.npy")
        self.assertIn("[a,b] c.npy", result.stderr)

    def test_certificates_are_made_and_not_replaced(self):
        args = ["certs", "--tasks", 2, "--out", "certs"]
        result = self.run_tool(*args)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = self.run_tool(*args)
        self.assertEqual(result.returncode, 1)
        self.assertIn("certs: wanted a directory that is new or empty",
                      result.stderr)
        self.assertIn('--hosts: "a b" is neither',
                      self.refuse("certs", "--tasks", 1, "--out", "other",
                                  "--hosts", "a b"))
        self.assertEqual(os.listdir(self.root), ["certs"])

    def test_a_reader_that_does_not_read_holds_nothing_up(self):
        read, write = os.pipe()
        os.write(write, b"x" * fcntl.fcntl(write, fcntl.F_GETPIPE_SZ))
        with subprocess.Popen(
                [TUTTI, "launch", "--tasks", "2", "--grace", "0.1", *PERF,
                 "--max-bytes", "64"], cwd=self.root, stdout=write) as process:
            self.addCleanup(os.close, read)
            self.addCleanup(os.close, write)
            children = pathlib.Path(
                f"/proc/{process.pid}/task/{process.pid}/children")
            deadline = time.monotonic() + 60
            while not children.read_text() and time.monotonic() < deadline:
                pass
            while children.read_text() and time.monotonic() < deadline:
                pass
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
        self.assertEqual(process.returncode, -signal.SIGTERM)

    def test_interrupted_certificates_leave_nothing(self):
        folder = self.root / "certs"
        with subprocess.Popen(
                [TUTTI, "certs", "--tasks", "65536", "--out", "certs"],
                cwd=self.root) as process:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not (
                    folder.exists() and os.listdir(folder)):
                pass
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(timeout=300), -signal.SIGTERM)
        self.assertEqual(os.listdir(self.root), [])


if __name__ == "__main__":
    main()
