#!/usr/bin/env python3
"""Starts the tasks of a cluster as a user would, each by a line of its own.

usage: worker_test.py TUTTI
"""

import os
import re
import socket
import subprocess

from tutti_testing import TUTTI, ToolTest, main, without_notes

# What a task is given to wait for the others; no test that passes waits so
# long, for the tasks must hear from each other why they do not work together.
START_TIMEOUT = 300

# Where it is this that passes: in it, both tasks must have come.
SHORT_TIMEOUT = 15


def free_addresses(count):
    """Where nobody listened just now, on this machine."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


class WorkerTestCase(ToolTest):

    def start(self, *args, variables=None):
        process = subprocess.Popen(
            [TUTTI, *map(str, args)], cwd=self.root, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, **(variables or {})})
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def start_task(self, cluster, task, words, options=(), variables=None):
        return self.start("worker", "--cluster", ",".join(cluster), "--task",
                          task, "--start-timeout", START_TIMEOUT, *options,
                          "--", *words, variables=variables)

    def end(self, process):
        """The exit status, what it printed, and its errors without notes."""
        out, err = process.communicate(timeout=START_TIMEOUT / 2)
        errors = without_notes(err).splitlines()
        return process.returncode, out, errors

    def error_of(self, process):
        """The one line with which it fails."""
        status, out, errors = self.end(process)
        self.assertEqual((status, out, len(errors)), (1, "", 1), errors)
        return errors[0]


class CommandsTest(WorkerTestCase):
    """All tasks run the same command, or none does."""

    def run_both(self, first, second, *options):
        """What the two tasks come to."""
        cluster = free_addresses(2)
        tasks = [self.start_task(cluster, task, words, extra)
                 for task, (words, extra) in enumerate([
                     (first, []), (second, options)])]
        return cluster, tasks

    def test_different_commands_are_refused_on_all_tasks(self):
        perf = ["perf", "all_reduce", "--max-bytes", 64]
        for first, second in [
                (perf, ["run", "barrier"]),
                (["run", "barrier"], ["run", "barrier", "--deadline", 5]),
                (perf, ["perf", "all_gather", "--max-bytes", 64]),
                (perf, ["perf", "all_reduce", "--max-bytes", 1024]),
                (perf, [*perf, "--iterations", 2]),
                (perf, [*perf, "--dtype", "float64"]),
                (perf, [*perf, "--check"]),
                ([*perf, "--check"], [*perf, "--check", "--seed", 2])]:
            with self.subTest(first=first, second=second):
                cluster, tasks = self.run_both(first, second)
                texts = [" ".join(map(str, words)) for words in (first, second)]
                for process in tasks:
                    self.assertRegex(
                        self.error_of(process),
                        "the tasks run different commands: "
                        rf"task 0 \({cluster[0]}\): {texts[0]}, "
                        rf"task 1 \({cluster[1]}\): {texts[1]}\Z")

    def test_tasks_that_tune_measure_the_same_and_one_writes(self):
        tune = ["tune", "barrier", "--iterations", 1, "--output"]
        for rounds, wanted in [(1, 0), (2, 1)]:
            with self.subTest(rounds=rounds):
                _, tasks = self.run_both(
                    [*tune, "0.json", "--rounds", 1],
                    ["tune", "--rounds", rounds, *tune[1:], "1.json"])
                for process in tasks:
                    status, _, errors = self.end(process)
                    self.assertEqual(status, wanted, errors)
                    self.assertEqual(
                        [error.partition(" task 0 ")[0] for error in errors],
                        wanted * ["tutti: the tasks run different commands:"])
                written = [path.name for path in self.root.iterdir()]
                self.assertEqual(written, [] if wanted else ["0.json"])
            (self.root / "0.json").unlink(missing_ok=True)

    def test_numbers_of_devices_are_part_of_the_command(self):
        _, tasks = self.run_both(["run", "barrier"], ["run", "barrier"],
                                 "--devices-per-task", 2)
        for process in tasks:
            self.assertRegex(self.error_of(process),
                             r"run barrier, task 1 .*: run barrier "
                             r"--devices-per-task 2\Z")

    def test_the_order_of_the_words_is_free_and_so_is_what_is_printed(self):
        _, tasks = self.run_both(
            ["perf", "all_reduce", "--max-bytes", 64, "--iterations", 1,
             "--json"],
            ["perf", "--iterations", 1, "all_reduce", "--max-bytes", 64])
        for process in tasks:
            self.assertEqual(self.end(process)[::2], (0, []))


class RefusalsTest(WorkerTestCase):
    """Tasks that refuse each other both hear why, long before time is up."""

    def test_lists_of_different_length(self):
        cluster = free_addresses(3)
        tasks = [self.start_task(cluster[:2], 0, ["run", "barrier"]),
                 self.start_task(cluster, 1, ["run", "barrier"])]
        for process in tasks:
            self.assertRegex(
                self.error_of(process),
                r"\Atutti: task \d \(\S+\) has a cluster of \d tasks, "
                r"task \d \(\S+\) one of \d\Z")

    def test_lists_with_another_address(self):
        """Told by the task that reaches nobody, when its time is up."""
        one, two, other = free_addresses(3)
        tasks = [self.start("worker", "--cluster", f"{one},{mine}", "--task",
                            task, "--start-timeout", SHORT_TIMEOUT, "--", "run",
                            "barrier")
                 for task, mine in enumerate([two, other])]
        error = self.error_of(tasks[0])
        self.assertRegex(error, rf"waited {SHORT_TIMEOUT}\.\d s for "
                         + re.escape(f"task 1 ({two})"))
        self.assertIn(f"task 1 ({two}) has called this task: is it at that "
                      "address by its own list of tasks, too?", error)
        self.error_of(tasks[1])

    def test_tokens(self):
        cluster = free_addresses(2)
        tasks = [self.start_task(cluster, task, ["run", "barrier"],
                                 variables={"TUTTI_TOKEN": str(task)})
                 for task in range(2)]
        for task, process in enumerate(tasks):
            error = self.error_of(process)
            other = f"task {1 - task} ({cluster[1 - task]})"
            self.assertEqual(error.count(other), 1, error)
            self.assertIn("TUTTI_TOKEN must be the same for all tasks", error)

    def test_jobs(self):
        cluster = free_addresses(2)
        tasks = [self.start_task(cluster, task, ["run", "barrier"],
                                 ["--job", f"job{task}"]) for task in range(2)]
        for process in tasks:
            self.assertIn(" is of job ", self.error_of(process))


class TlsTest(WorkerTestCase):

    def make_certificates(self, name, tasks=2):
        made = self.start("certs", "--tasks", tasks, "--out", name)
        self.assertEqual(self.end(made)[0], 0)

    def options(self, name, certificate="{task}"):
        return ["--tls-cert", f"{name}/task-{certificate}.pem", "--tls-key",
                f"{name}/task-{certificate}.key", "--tls-ca", f"{name}/ca.pem"]

    def test_certificates_of_another_ca_take_one_line(self):
        self.make_certificates("a")
        self.make_certificates("b")
        cluster = free_addresses(2)
        tasks = [self.start_task(cluster, task, ["run", "barrier"],
                                 self.options(name))
                 for task, name in enumerate("ab")]
        for process in tasks:
            self.assertIn("certificate", self.error_of(process))

    def test_who_lacks_tls_is_told_to_look_there(self):
        self.make_certificates("a")
        cluster = free_addresses(2)
        words = ["worker", "--cluster", ",".join(cluster), "--start-timeout",
                 SHORT_TIMEOUT]
        tasks = [self.start(*words, "--task", task, *options, "--", "run",
                            "barrier")
                 for task, options in enumerate([self.options("a"), []])]
        self.assertIn("it does not speak TLS, this task does",
                      self.error_of(tasks[0]))
        self.assertIn("do both use TLS, or neither", self.error_of(tasks[1]))

    def test_certificates_of_another_task(self):
        self.make_certificates("a", tasks=3)
        cluster = free_addresses(2)
        tasks = [self.start_task(cluster, task, ["run", "barrier"],
                                 self.options("a", certificate))
                 for task, certificate in enumerate([0, 2])]
        for process in tasks:
            self.assertIn("certificate", self.error_of(process))

    def test_an_expired_certificate_of_its_own_is_named(self):
        # `openssl ca` alone makes what has already ended.
        (self.root / "ca.conf").write_text(
            "[ca]\ndefault_ca = own\n[own]\ndatabase = index\n"
            "new_certs_dir = .\nrand_serial = yes\ndefault_md = sha256\n"
            "policy = any\n[any]\ncommonName = supplied\n")
        (self.root / "index").touch()
        for words in [
                ["req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj",
                 "/CN=task-0", "-keyout", "key.pem", "-out", "request.pem"],
                ["ca", "-batch", "-notext", "-config", "ca.conf", "-selfsign",
                 "-keyfile", "key.pem", "-in", "request.pem", "-out", "old.pem",
                 "-startdate", "20200101000000Z", "-enddate",
                 "20200102000000Z"]]:
            subprocess.run(["openssl", *words], cwd=self.root, check=True,
                           capture_output=True)
        process = self.start_task(
            free_addresses(2), 0, ["run", "barrier"],
            ["--tls-cert", "old.pem", "--tls-key", "key.pem", "--tls-ca",
             "old.pem"])
        self.assertEqual(self.error_of(process),
                         "tutti: old.pem expired on 2020-01-02 00:00:00 UTC")

    def test_a_directory_is_named(self):
        cluster = free_addresses(2)
        process = self.start_task(
            cluster, 0, ["run", "barrier"],
            ["--tls-cert", ".", "--tls-key", "k", "--tls-ca", "c"])
        self.assertIn(". is a directory; wanted a file in PEM format",
                      self.error_of(process))


class AddressesTest(WorkerTestCase):

    def test_an_address_that_the_machine_does_not_have_is_noted(self):
        port = free_addresses(1)[0].split(":")[1]
        process = self.start("run", "barrier", "--cluster",
                             f"192.0.2.1:{port}", "--insecure")
        status, _, lines = self.end(process)
        self.assertEqual(
            (status, lines),
            (0, ["tutti: note: 192.0.2.1 is no address of this machine; "
                 "listening everywhere"]))


if __name__ == "__main__":
    main()
