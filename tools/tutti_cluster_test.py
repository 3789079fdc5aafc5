#!/usr/bin/env python3
"""Starts the tasks of a cluster as a user would: together, or each by a line of
its own.

usage: tutti_cluster_test.py TUTTI
"""

import json
import os
import re
import resource
import signal
import socket
import subprocess

import numpy as np

from tutti_testing import arrays_of, main, ToolTest, TUTTI, without_notes

# What a task is given to wait for the others; no test that passes waits so
# long, for the tasks must hear from each other why they do not work together.
START_TIMEOUT = 300

# Where it is this that passes: in it, both tasks must have come.
SHORT_TIMEOUT = 10

PERF = ["perf", "all_reduce", "--max-bytes", 64]
BARRIER = ["run", "barrier"]

# Rows that keep coming for much longer than any test takes.
LONG_PERF = ["perf", "all_reduce", "--iterations", 2000, "--max-bytes", "64M"]


def free_addresses(count):
    """Where nobody listened just now, on this machine."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


class ClusterTestCase(ToolTest):

    def launch(self, tasks, *words, options=(), **kwargs):
        return self.run_tool("launch", "--tasks", tasks, *options, "--", *words,
                             **kwargs)

    def start(self, *args, variables=None):
        process = subprocess.Popen(
            [TUTTI, *map(str, args)], cwd=self.root, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TUTTI_TOKEN": "secret", **(variables or {})})
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_task(self, cluster, task, words, options=(), variables=None,
                   timeout=START_TIMEOUT):
        return self.start("worker", "--cluster", ",".join(cluster), "--task",
                          task, "--start-timeout", timeout, *options, "--",
                          *words, variables=variables)

    def end(self, process):
        """The exit status, what it printed, and its errors without notes."""
        out, err = process.communicate(timeout=START_TIMEOUT / 2)
        return process.returncode, out, without_notes(err).splitlines()

    def error_of(self, process):
        """The one line with which it fails."""
        status, out, errors = self.end(process)
        self.assertEqual((status, out, len(errors)), (1, "", 1), errors)
        return errors[0]


class TogetherTest(ClusterTestCase):
    """launch starts all tasks."""

    def test_files_of_all_tasks_give_what_numpy_says(self):
        arrays = arrays_of(6, (7, 3), "int64")
        rows = [array[:5 * rank % 7] for rank, array in enumerate(arrays)]
        # Of the tasks {0, 1, 2} and {3, 4, 5}, the middle group has both.
        pairs = [arrays[i - i % 2] + arrays[i - i % 2 + 1] for i in range(6)]
        for inputs, devices, words, wanted in [
                (rows, 2, ["all_gather"], [np.concatenate(rows)] * 6),
                (arrays, 3, ["all_reduce", "--groups", 3], pairs),
                (arrays_of(4, 9), 1, ["all_reduce", "--reduction", "avg"],
                 [sum(arrays_of(4, 9)) / 4] * 4),
                (arrays[:4], 1, ["gather", "--root", 3],
                 {3: np.concatenate(arrays[:4])})]:
            with self.subTest(words):
                found = self.run_collective(
                    inputs, *words, through=[
                        "launch", "--tasks", len(inputs) // devices,
                        "--devices-per-task", devices, "--"])
                self.assert_outputs(found, wanted)

    def test_errors_are_repeated_last_with_their_status(self):
        result = self.launch(3, "run", "all_reduce", "--output", "out",
                             "--input", "[a,b] none.npy")
        self.assertEqual((result.returncode, result.stdout), (1, ""), result)
        *lines, last = result.stderr.splitlines()
        self.assertRegex(lines[0], r"\A\[\d\] tutti: .*\[a,b\] none\.npy")
        self.assertRegex(last, r"\Atutti: task \d failed with exit status 1: .*"
                         r"\[a,b\] none\.npy")

    def test_processes_make_rules_that_choose_for_such(self):
        devices = ["--devices-per-task", 2]
        quick = ["--max-bytes", 2048, "--iterations", 1]
        result = self.launch(2, "tune", "all_reduce", "--output", "rules.json",
                             "--rounds", 1, *quick, options=devices)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rows = [re.split(r" {2,}", line)
                for line in result.stdout.splitlines()[1:-2]]
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
            result = self.launch(2, "perf", "all_reduce", "--factor", 8, *quick,
                                 "--json", options=devices, variables=variables)
            self.assertEqual({row["bytes"]: row["algorithm"]
                              for row in json.loads(result.stdout)},
                             {int(row[2]): row[column].split()[0]
                              for row in rows})
        for row in rows:
            told = json.loads(self.succeed(
                "explain", "all_reduce", "--layout", "2x2", "--rules",
                "rules.json", "--bytes", row[2], "--json"))
            self.assertEqual(told["chosen"], row[6].split()[0])
            self.assertEqual(len(told["rules"]), 1)

    def test_one_task_measures_as_a_process_alone(self):
        result = self.launch(1, "tune", "barrier", "--layout", "1x3", "--rounds",
                             1, "--iterations", 1, "--output", "rules.json")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        written = json.loads((self.root / "rules.json").read_text())
        self.assertEqual({(rule["layout"], rule["one_process"])
                          for rule in written["rules"]}, {("1x3", True)})
        self.assertIn("past_caches_from_bytes", written)

    def test_a_full_disk_leaves_nothing(self):
        # Directories are not empty before the last task has given up.
        pattern = self.save([np.zeros(500)] * 2)
        result = self.launch(2, "run", "all_reduce", "--input", pattern,
                             "--output", "out/deep",
                             preexec_fn=self.limit_files)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result)
        self.assertRegex(result.stderr.splitlines()[-1],
                         r"out/deep/rank\d\.npy: cannot be written")
        self.assert_nothing_written()

    def test_a_low_limit_of_descriptors_is_raised_or_named(self):
        def limited_to(*soft_and_hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                              soft_and_hard)
        result = self.launch(2, "run", "barrier",
                             preexec_fn=limited_to(20, 100))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = self.launch(2, "run", "barrier", preexec_fn=limited_to(20, 20))
        self.assertEqual((result.returncode, result.stdout), (1, ""), result)
        self.assertIn("each of 2 tasks needs about 22 file descriptors, and "
                      "this process may have 20", result.stderr)

    def test_a_deadline_is_met_or_said_to_be_missed(self):
        result = self.launch(2, *PERF, "--deadline", "1e-9")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, "tutti: the library's choice with 4 "
                         "bytes: .*: the deadline passed after ")
        self.assertEqual(
            self.launch(2, *PERF, "--deadline", 100).returncode, 0)

    def test_a_reader_that_goes_away_is_no_error(self):
        result = self.run_for_nobody("launch", "--tasks", 2, "--", *PERF)
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class ApartTest(ClusterTestCase):
    """Tasks that refuse each other both hear why, long before time is up."""

    def test_different_commands_are_refused_on_all_tasks(self):
        cases = []
        for first, second, options in [
                (PERF, BARRIER, []), (PERF, [*PERF, "--iterations", 2], []),
                (BARRIER, BARRIER, ["--devices-per-task", 2])]:
            cluster = free_addresses(2)
            cases.append((cluster, first, [*second, *options],
                          [self.start_task(cluster, 0, first),
                           self.start_task(cluster, 1, second, options)]))
        for cluster, *commands, tasks in cases:
            texts = [" ".join(map(str, words)) for words in commands]
            for process in tasks:
                self.assertRegex(
                    self.error_of(process),
                    "the tasks run different commands: "
                    rf"task 0 \({cluster[0]}\): {texts[0]}, "
                    rf"task 1 \({cluster[1]}\): {texts[1]}\Z")

    def test_tasks_that_tune_measure_the_same_and_one_writes(self):
        tune = ["tune", "barrier", "--rounds", 1, "--iterations", 1, "--output"]
        cluster = free_addresses(2)
        for process in [self.start_task(cluster, task, [*tune, f"{task}.json"])
                        for task in range(2)]:
            self.assertEqual(self.end(process)[::2], (0, []))
        self.assertEqual(os.listdir(self.root), ["0.json"])

    def test_tasks_of_other_jobs_and_lists_are_refused(self):
        cluster, other = free_addresses(3), free_addresses(2)
        tasks = [self.start_task(cluster[:2], 0, BARRIER),
                 self.start_task(cluster, 1, BARRIER)]
        of_jobs = [self.start_task(other, task, BARRIER, ["--job", f"job{task}"])
                   for task in range(2)]
        for process in tasks:
            self.assertRegex(
                self.error_of(process),
                r"\Atutti: task \d \(\S+\) has a cluster of \d tasks, "
                r"task \d \(\S+\) one of \d\Z")
        for process in of_jobs:
            self.assertIn(" is of job ", self.error_of(process))

    def test_tokens(self):
        cluster = free_addresses(2)
        tasks = [self.start_task(cluster, task, BARRIER,
                                 variables={"TUTTI_TOKEN": str(task)})
                 for task in range(2)]
        for task, process in enumerate(tasks):
            error = self.error_of(process)
            other = f"task {1 - task} ({cluster[1 - task]})"
            self.assertEqual(error.count(other), 1, error)
            self.assertIn("TUTTI_TOKEN must be the same for all tasks", error)

    def test_a_missing_token_is_a_warning_that_names_the_risk(self):
        cluster = free_addresses(2)
        workers = [self.start_task(cluster, task, BARRIER,
                                   variables={"TUTTI_TOKEN": ""})
                   for task in range(2)]
        for worker in workers:
            status, _, errors = self.end(worker)
            self.assertEqual((status, len(errors)), (0, 1), errors)
            self.assertRegex(errors[0], r"\Atutti: warning: TUTTI_TOKEN is not "
                             "set: .* every user of their machines")

    def make_certificates(self, name, tasks=2):
        self.succeed("certs", "--tasks", tasks, "--out", name)

    def tls(self, name, certificate="{task}"):
        return ["--tls-cert", f"{name}/task-{certificate}.pem", "--tls-key",
                f"{name}/task-{certificate}.key", "--tls-ca", f"{name}/ca.pem"]

    def test_certificates_of_others_take_one_line(self):
        self.make_certificates("a", tasks=3)
        self.make_certificates("b")
        tasks = []
        for others in [self.tls("b"), self.tls("a", certificate=2)]:
            cluster = free_addresses(2)
            tasks += [self.start_task(cluster, 0, BARRIER, self.tls("a")),
                      self.start_task(cluster, 1, BARRIER, others)]
        for process in tasks:
            self.assertIn("certificate", self.error_of(process))

    def test_who_reaches_nobody_is_told_where_to_look_when_time_is_up(self):
        self.make_certificates("a")
        one, two, other = free_addresses(3)
        addresses = [self.start_task([one, mine], task, BARRIER,
                                     timeout=SHORT_TIMEOUT)
                     for task, mine in enumerate([two, other])]
        cluster = free_addresses(2)
        tls = [self.start_task(cluster, task, BARRIER, options,
                               timeout=SHORT_TIMEOUT)
               for task, options in enumerate([self.tls("a"), []])]
        error = self.error_of(addresses[0])
        self.assertRegex(error, rf"waited {SHORT_TIMEOUT}\.\d s for "
                         + re.escape(f"task 1 ({two})"))
        self.assertIn(f"task 1 ({two}) has called this task: is it at that "
                      "address by its own list of tasks, too?", error)
        self.error_of(addresses[1])
        self.assertIn("it does not speak TLS, this task does",
                      self.error_of(tls[0]))
        self.assertIn("do both use TLS, or neither", self.error_of(tls[1]))

    def test_an_expired_certificate_of_its_own_is_named(self):
        for words in ["req -new -newkey rsa:2048 -nodes -subj /CN=task-0 "
                      "-keyout key.pem -out request.pem",
                      "x509 -req -days -1 -in request.pem -signkey key.pem "
                      "-out old.pem"]:
            subprocess.run(["openssl", *words.split()], cwd=self.root,
                           check=True, capture_output=True)
        process = self.start_task(
            free_addresses(2), 0, BARRIER,
            ["--tls-cert", "old.pem", "--tls-key", "key.pem", "--tls-ca",
             "old.pem"])
        self.assertRegex(self.error_of(process),
                         r"\Atutti: old.pem expired on [\d-]+ [\d:]+ UTC\Z")

    def test_an_address_that_the_machine_does_not_have_is_noted(self):
        port = free_addresses(1)[0].split(":")[1]
        process = self.start(*BARRIER, "--cluster", f"192.0.2.1:{port}",
                             "--insecure")
        self.assertEqual(
            self.end(process)[::2],
            (0, ["tutti: note: 192.0.2.1 is no address of this machine; "
                 "listening everywhere"]))

    def test_who_dies_is_named_by_the_others(self):
        for victim, number in [(0, signal.SIGKILL), (1, signal.SIGTERM)]:
            with self.subTest(victim=victim, number=number):
                cluster = free_addresses(3)
                workers = [self.start_task(cluster, task, LONG_PERF)
                           for task in range(3)]
                for line in workers[0].stdout:
                    if re.match(r" *4 ", line):
                        break
                workers[victim].send_signal(number)
                for task, worker in enumerate(workers):
                    _, errors = worker.communicate(timeout=START_TIMEOUT)
                    if task == victim:
                        continue
                    self.assertEqual(worker.returncode, 1, errors)
                    self.assertIn(f"task {victim} ({cluster[victim]})", errors)

    def test_who_never_starts_is_named(self):
        cluster = free_addresses(2)
        worker = self.start_task(cluster, 1, BARRIER, timeout=1)
        self.assertRegex(self.error_of(worker), r"waited [1-9]\.\d s for "
                         + re.escape(f"task 0 ({cluster[0]}), which never "
                                     "answered"))

    def test_a_port_that_is_taken_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.assertIn(address, self.error_of(
                self.start_task([address], 0, BARRIER)))


if __name__ == "__main__":
    main()
