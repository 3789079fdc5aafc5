#!/usr/bin/env python3
"""Starts processes of the tool with mpirun, each by a command of its own.

usage: mpi_commands_test.py TUTTI LIBRARY

LIBRARY is host_name.cc.
"""

import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from mpi_job import mpi_environment, place_on_hosts

TUTTI = os.path.abspath(sys.argv[1])
LIBRARY = sys.argv[2]

# At most, from the death of a process to the end of all others: a promise.
SECONDS_TO_END = 10

# Waits for others to end, or for tensors: `perf` gathers its times after a row.
ENDS_FOR_RANK_1 = (
    r"tutti: MPI: rank [02] has waited 10s for .* lost: rank 1 "
    r"\(task 1 .* was lost: .*\); it ends the job\n")


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

    def test_no_windows_of_mpis_are_needed(self):
        """Of its components for them only one can share memory."""
        command = "perf all_reduce --check --max-bytes 64 --iterations 2"
        for components in ["ucx", "pt2pt", "^sm"]:
            with self.subTest(components):
                result = self.mpirun(command, command,
                                     OMPI_MCA_osc=components)
                self.assertEqual(result.returncode, 0, result)

    def test_the_same_command_in_other_words_is_run(self):
        result = self.mpirun("perf all_reduce --max-bytes 64 --iterations 2",
                             "perf --iterations 2 --max-bytes 64 all_reduce")
        self.assertEqual(result.returncode, 0, result)
        _, *rows = result.stdout.splitlines()
        self.assertEqual([row.split()[0] for row in rows], ["4", "16", "64"])

    def test_what_mpi_runs_can_be_named(self):
        for collective, algorithm, devices in [
                ("all_reduce", "MpiReduce", 1), ("reduce", "MpiReduce", 1),
                ("all_gather", "MpiGather", 1),
                ("broadcast", "MpiBroadcast", 1),
                ("reduce_scatter", "MpiReduceScatter", 1),
                ("all_to_all", "MpiAllToAll", 1),
                ("all_reduce", "LocalThenMpi", 2)]:
            with self.subTest(algorithm, collective=collective):
                command = (f"worker --devices-per-task {devices} -- "
                           f"perf {collective} --algorithm {algorithm} --check "
                           "--max-bytes 64 --iterations 2")
                result = self.mpirun(command, command)
                self.assertEqual(result.returncode, 0, result)
                self.assertIn(algorithm, result.stdout)

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

    def begin(self, environment, script, *command, options=()):
        """Three processes of the tool, each begun by `script`, and their ids.

        They have printed the first result.
        """
        mpirun = subprocess.Popen(
            ["mpirun", *options, "-n", "3", "sh", "-c",
             f'{script} echo $OMPI_COMM_WORLD_RANK $$; exec "$@"', "sh", TUTTI,
             *command],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment)
        self.addCleanup(mpirun.kill)
        pids = {}
        for line in mpirun.stdout:
            words = line.split()
            if len(words) == 2 and words[0].isdigit():
                pids[int(words[0])] = int(words[1])
            if "p50" in line:
                break
        self.assertEqual(sorted(pids), [0, 1, 2])
        return mpirun, pids

    def test_a_process_that_dies_ends_the_job(self):
        in_mpi = ["--algorithm", "MpiReduce", "--min-bytes", "4", "--max-bytes",
                  "64M", "--factor", str(1 << 24)]
        for num_hosts, rank, number, options in [
                (1, 1, signal.SIGKILL, []), (3, 1, signal.SIGKILL, []),
                (1, 0, signal.SIGKILL, in_mpi), (1, 2, signal.SIGABRT, [])]:
            with self.subTest(num_hosts=num_hosts, rank=rank, number=number):
                self.end_by_death(num_hosts, rank, number, options)

    def end_by_death(self, num_hosts, rank, number, perf_options):
        with mpi_environment() as environment:
            options = [] if num_hosts == 1 else place_on_hosts(
                environment, LIBRARY, num_hosts, 1)
            # Every process holds it open for writing as long as it lives.
            held = os.path.join(environment["TMPDIR"], "held")
            os.mkfifo(held)
            reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
            self.addCleanup(os.close, reader)
            mpirun, pids = self.begin(environment, f'exec 9>"{held}";', "perf",
                                      "all_reduce", "--iterations", "100",
                                      *perf_options, options=options)
            end_by = time.monotonic() + SECONDS_TO_END
            os.kill(pids[rank], number)
            _, errors = mpirun.communicate(timeout=SECONDS_TO_END)
            self.assertNotEqual(mpirun.returncode, 0)
            # In one line; the others have nothing to add.
            told = [line for line in errors.splitlines()
                    if line.startswith("mpirun noticed that ")]
            self.assertEqual(len(told), 1, errors)
            self.assertRegex(told[0], rf" rank {rank} .* signal {number:d} ")
            self.assertNotIn("tutti:", errors)
            none_left = select.poll()
            none_left.register(reader, select.POLLHUP)
            left_ms = max(0, 1000 * (end_by - time.monotonic()))
            self.assertEqual(none_left.poll(left_ms),
                             [(reader, select.POLLHUP)])

    def test_a_process_that_stands_still_ends_the_job(self):
        with mpi_environment() as environment:
            mpirun, pids = self.begin(
                environment, "", "perf", "all_reduce", "--iterations", "100")
            os.kill(pids[1], signal.SIGSTOP)
            _, errors = mpirun.communicate(timeout=SECONDS_TO_END + 30)
            self.assertNotEqual(mpirun.returncode, 0)
            self.assertRegex(errors, ENDS_FOR_RANK_1)

    def test_a_process_that_stands_still_in_a_collective_of_mpis_ends_it(self):
        with mpi_environment() as environment:
            mpirun, pids = self.begin(
                environment, "", "perf", "all_reduce", "--algorithm",
                "MpiReduce", "--min-bytes", "4", "--max-bytes", "64M",
                "--factor", str(1 << 24), "--iterations", "100")
            os.kill(pids[1], signal.SIGSTOP)
            _, errors = mpirun.communicate(timeout=SECONDS_TO_END + 30)
            self.assertNotEqual(mpirun.returncode, 0)
            self.assertRegex(errors, ENDS_FOR_RANK_1)

    def test_a_process_that_stands_still_before_mpi_is_up_is_waited_for(self):
        """The others say so, and go on when it does."""
        script = ('if [ $OMPI_COMM_WORLD_RANK = 1 ]; then '
                  'echo $$; kill -STOP $$; fi; exec "$@"')
        with mpi_environment() as environment:
            mpirun = subprocess.Popen(
                ["mpirun", "-n", "2", "sh", "-c", script, "sh", TUTTI, "run",
                 "barrier"],
                text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, env=environment)
            self.addCleanup(mpirun.kill)
            stopped = int(mpirun.stdout.readline())
            self.assertRegex(
                mpirun.stderr.readline(),
                r"\Atutti: MPI: process \d+ has waited 10s for MPI to come up")
            os.kill(stopped, signal.SIGCONT)
            output, errors = mpirun.communicate(timeout=30)
            self.assertEqual((mpirun.returncode, output, errors),
                             (0, "barrier on 2 ranks: done\n", ""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
