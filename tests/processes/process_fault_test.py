#!/usr/bin/env python3
"""Kills, stops and restarts processes that run collectives together.

usage: process_fault_test.py FAULT_WORKER [TEST...]

Each test of a fault is a cell: a shape, a fault, and what the processes were
doing. No survivor may hang, each says who is to blame, and the survivors can go
on.
"""

import collections
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

WORKER = os.path.abspath(sys.argv[1])

# What says who takes part; no test is to see what the machine says.
FOREIGN = re.compile("TUTTI_|SLURM_")

# When a test gives up on a process. Nothing takes a tenth of it.
PATIENCE_SECONDS = 60

# Tasks, and devices of each.
SHAPES = [(2, 1), (3, 1), (4, 2)]

GROUP = 7
SMALL = 7  # Elements, of eight bytes.
LARGE = 300_001
HUGE = 4_000_001  # More than sockets hold.

# Descriptors and threads that a process may have more of after a fault: those
# of gRPC's attempts to reach who is gone, and of its pool.
SLACK = 8

# Of two tasks that have called each other: connections each way, for calls and
# for bytes.
DESCRIPTORS_OF_A_PAIR = 8


class Ports:
    """Free ports of 127.0.0.1, held until just before somebody listens."""

    def __init__(self, count):
        self.sockets = [socket.socket() for _ in range(count)]
        for one in self.sockets:
            one.bind(("127.0.0.1", 0))
        self.numbers = [one.getsockname()[1] for one in self.sockets]

    def release(self):
        for one in self.sockets:
            one.close()


class Worker:
    """A process, what it is told and what it says."""

    def __init__(self, args):
        environment = {name: value for name, value in os.environ.items()
                       if not FOREIGN.match(name)}
        self.process = subprocess.Popen(
            args, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=environment)
        self.said = []  # All lines.
        self.unread = collections.deque()
        self.rest = b""

    def tell(self, *words):
        line = " ".join(map(str, words)) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()

    def hear(self, name):
        """The rest of the next line that begins with the name."""
        return hear_any([self], name)[1]

    def take(self, name):
        """What hear() gives, if that has been read; else None."""
        for i, line in enumerate(self.unread):
            if line.startswith(name + " "):
                del self.unread[i]
                return line[len(name) + 1:]
        return None

    def read_some(self, wanted):
        data = os.read(self.process.stdout.fileno(), 65536)
        if not data:
            raise AssertionError(f"waited for \"{wanted}\" of {self}, which "
                                 f"ended: {self.process.wait()}")
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.said += [line.decode() for line in lines]
        self.unread.extend(line.decode() for line in lines)

    def __str__(self):
        return f"{self.process.args[-3:]} {self.said} {self.rest}"

    def ask(self, *words):
        """What it answers at once."""
        self.tell(*words)
        return self.hear(words[0])

    def send(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


def hear_any(workers, name):
    """The first of the workers to say so, and what it says."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    by_output = {worker.process.stdout: worker for worker in workers}
    while True:
        for worker in workers:
            said = worker.take(name)
            if said is not None:
                return worker, said
        left = max(0, deadline - time.monotonic())
        ready = select.select(list(by_output), [], [], left)[0]
        if not ready:
            raise AssertionError(f"waited for \"{name}\" of "
                                 f"{list(map(str, workers))}")
        for output in ready:
            by_output[output].read_some(name)


class Cluster:
    """Tasks of one cluster, each a worker."""

    def __init__(self, test, shape, profile="default"):
        self.test = test
        self.num_tasks, self.devices = shape
        self.profile = profile
        self.ports = Ports(self.num_tasks)
        test.addCleanup(self.ports.release)
        self.addresses = [f"127.0.0.1:{port}" for port in self.ports.numbers]
        self.workers = [None] * self.num_tasks
        self.prefixes = [[] for _ in range(self.num_tasks)]  # Of the commands of workers.
        self.certificates = []  # The folder with them, if there is one.
        self.step = 1

    def label(self, task):
        return f"task {task} ({self.addresses[task]})"

    def start(self, task):
        """A process that listens, in the place of the one there was."""
        self.ports.sockets[task].close()
        worker = self.spawn(task)
        self.test.assertEqual(worker.hear("create"), "OK")
        self.workers[task] = worker
        return worker

    def spawn(self, task):
        worker = Worker([*self.prefixes[task], WORKER, "gRPC",
                         ",".join(self.addresses), str(task),
                         str(self.devices), self.profile, *self.certificates])
        self.test.addCleanup(worker.close)
        return worker

    def begin_join(self, tasks, seconds=PATIENCE_SECONDS):
        for task in tasks:
            self.workers[task].tell("join", seconds)

    def join(self, tasks):
        self.begin_join(tasks)
        for task in tasks:
            self.test.assertEqual(self.workers[task].hear("join"), "OK")

    def begin(self):
        tasks = range(self.num_tasks)
        for task in tasks:
            self.start(task)
        self.join(tasks)

    def start_run(self, name, members, among=None, instance=1, elements=SMALL,
                 verb="run", seconds=""):
        """Has the members, of a group of the tasks `among`, run a job."""
        among = list(range(self.num_tasks)) if among is None else list(among)
        for task in members:
            self.workers[task].tell(
                verb, name, GROUP, len(among) * self.devices,
                among.index(task) * self.devices, instance, elements, seconds)

    def run(self, name, among, **options):
        """A job of all these tasks, which succeeds."""
        self.start_run(name, among, among, **options)
        for task in among:
            self.test.assertEqual(self.workers[task].hear(name), "OK")

    def go_on(self, tasks):
        """A job of these tasks, in a new step: what was counted in the old one
        fits no more."""
        self.step += 1
        for task in tasks:
            self.workers[task].ask("step", self.step)
        self.run("next", tasks)

    def reform(self, tasks):
        for task in tasks:
            self.test.assertEqual(self.workers[task].ask("reform", GROUP), "OK")

    def counts(self, task):
        return [int(n) for n in self.workers[task].ask("count").split()]


# What the tasks do when the fault comes. Each has the tasks `active` wait or
# work under the name "job"; the others are about to.

def while_forming_the_group(cluster, active):
    cluster.begin()
    cluster.start_run("job", active)


def while_settling_an_instance(cluster, active):
    cluster.begin()
    cluster.run("first", range(cluster.num_tasks))
    cluster.start_run("job", active, instance=2)


def loop(cluster, elements):
    tasks = range(cluster.num_tasks)
    cluster.begin()
    cluster.start_run("job", tasks, elements=elements, verb="loop")
    for task in tasks:
        cluster.test.assertEqual(cluster.workers[task].hear("job"), "going")


def while_running_small_jobs(cluster, _):
    loop(cluster, SMALL)


def while_running_large_jobs(cluster, _):
    loop(cluster, LARGE)


POINTS = [while_forming_the_group, while_settling_an_instance,
          while_running_small_jobs, while_running_large_jobs]


class FaultTestCase(unittest.TestCase):

    def cluster(self, shape, profile="default"):
        return Cluster(self, shape, profile)

    def assert_blames(self, cluster, status, culprits):
        # The others: another process is at the address already; the group has
        # ended, and why.
        self.assertRegex(status, r"\A(UNAVAILABLE: |FAILED_PRECONDITION: .*"
                         "restarted|ABORTED: generation .* has ended: )")
        named = {task for task in range(cluster.num_tasks)
                 if cluster.label(task) in status}
        self.assertTrue(named, status)
        self.assertLessEqual(named, set(culprits), status)


class FaultTest(FaultTestCase):

    def check_survivors(self, cluster, culprits):
        """Their jobs end; then they form a group of their own."""
        survivors = [task for task in range(cluster.num_tasks)
                     if task not in culprits]
        for task in survivors:
            self.assert_blames(cluster, cluster.workers[task].hear("job"),
                               culprits)
        cluster.reform(survivors)
        cluster.go_on(survivors)
        cluster.run("later", survivors, instance=3, elements=LARGE)
        return survivors

    def check_fault(self, shape, point, culprits, fault, profile="default"):
        cluster = self.cluster(shape, profile)
        survivors = [task for task in range(cluster.num_tasks)
                     if task not in culprits]
        point(cluster, survivors)
        before = {task: cluster.counts(task) for task in survivors}
        for task in culprits:
            fault(cluster.workers[task])
        self.check_survivors(cluster, culprits)
        # Survivors may not have called each other before.
        slack = [SLACK + len(survivors) * DESCRIPTORS_OF_A_PAIR, SLACK]
        for task in survivors:
            for after, n, more in zip(cluster.counts(task), before[task], slack):
                self.assertLessEqual(after, n + more)
        return cluster

    def check_kill_between_jobs(self, shape, culprit):
        """Whoever calls later hears of it too, whether it leads or not."""
        cluster = self.cluster(shape)
        tasks = range(cluster.num_tasks)
        survivors = [task for task in tasks if task != culprit]
        cluster.begin()
        cluster.run("first", tasks)
        cluster.workers[culprit].kill()
        for task in survivors:
            status = "OK"
            while status == "OK":  # It hears of it soon.
                status = cluster.workers[task].ask("health", culprit, 60)
            self.assertTrue(status.startswith("UNAVAILABLE: "), status)
        cluster.start_run("job", survivors, instance=2)
        self.check_survivors(cluster, [culprit])

    def check_restart(self, shape, point, culprit):
        """The task comes back at its address, and takes part again."""
        cluster = self.cluster(shape)
        tasks = list(range(cluster.num_tasks))
        survivors = [task for task in tasks if task != culprit]
        point(cluster, survivors)
        cluster.workers[culprit].kill()
        for task in survivors:
            self.assert_blames(cluster, cluster.workers[task].hear("job"),
                               [culprit])
        cluster.start(culprit)
        cluster.join([culprit])
        cluster.reform(survivors)
        cluster.go_on(tasks)
        cluster.run("later", tasks, instance=3, elements=LARGE)

    def check_zombie(self, shape, point, culprits):
        """Who is silent is lost; when it wakes up, it cannot go on as if
        nothing had happened, and hurts nobody."""
        cluster = self.check_fault(
            shape, point, culprits, lambda worker: worker.send(signal.SIGSTOP),
            profile="fast")
        survivors = [task for task in range(cluster.num_tasks)
                     if task not in culprits]
        for task in culprits:
            cluster.workers[task].send(signal.SIGCONT)
        for task in culprits:
            cluster.start_run("zombie", [task], instance=9)
        for task in culprits:
            status = cluster.workers[task].hear("zombie")
            # Others refuse it, or it took them for the silent ones, or both:
            # then there is none left.
            self.assertRegex(status, "(FAILED_PRECONDITION|UNAVAILABLE): ")
            names = [cluster.label(other)
                     for other in range(cluster.num_tasks)]
            names.append(f"each of the {cluster.num_tasks} tasks of the job "
                         "has been lost; start all of them again")
            self.assertTrue(any(name in status for name in names), status)
        cluster.run("unharmed", survivors, instance=4)

    def check_late_start(self, shape, culprit):
        """A task dies before the others join; another one takes its place."""
        cluster = self.cluster(shape)
        others = [task for task in range(cluster.num_tasks) if task != culprit]
        cluster.start(culprit).kill()
        for task in others:
            cluster.start(task)
        cluster.begin_join(others)
        for task in others:
            missing = None
            while missing != str(culprit):
                missing = cluster.workers[task].hear("missing")
        cluster.start(culprit)
        cluster.join([culprit])
        for task in others:
            self.assertEqual(cluster.workers[task].hear("join"), "OK")
        cluster.run("job", range(cluster.num_tasks))

    def check_pause(self, shape, point, culprit):
        """Three seconds of standstill kill nobody."""
        cluster = self.cluster(shape)
        tasks = range(cluster.num_tasks)
        active = [task for task in tasks if task != culprit]
        point(cluster, active)
        paused = cluster.workers[culprit]
        paused.send(signal.SIGSTOP)
        time.sleep(3)  # What is tested, not a way to wait for something.
        paused.send(signal.SIGCONT)
        if point is while_settling_an_instance:
            cluster.start_run("job", [culprit], instance=2)
            for task in tasks:
                self.assertEqual(cluster.workers[task].hear("job"), "OK")
        cluster.run("after", tasks, instance=3)
        for worker in cluster.workers:
            self.assertFalse([line for line in worker.unread
                              if line.startswith("job ")])

    def check_never_starts(self, shape, culprit):
        """The others give up, and say on whom and how long they waited."""
        cluster = self.cluster(shape)
        others = [task for task in range(cluster.num_tasks) if task != culprit]
        for task in others:
            cluster.start(task)
        cluster.begin_join(others, seconds=2)
        for task in others:
            status = cluster.workers[task].hear("join")
            self.assertRegex(
                status, r"\ADEADLINE_EXCEEDED: "
                + re.escape(cluster.label(task)) + r" waited [2-9]\.\d s for "
                + re.escape(cluster.label(culprit)) + ", which never answered")

    def test_the_default_profile_loses_who_is_silent_for_five_seconds(self):
        self.check_fault((3, 1), while_running_small_jobs, [1],
                         lambda worker: worker.send(signal.SIGSTOP))

    def test_a_port_that_is_taken(self):
        cluster = self.cluster((2, 1))
        cluster.begin()
        for task in range(2):
            status = cluster.spawn(task).hear("create")
            self.assertRegex(status, r"\AUNAVAILABLE: ")
            self.assertIn(cluster.addresses[task], status)
        cluster.run("unharmed", range(2))

    def test_a_deadline_names_who_has_not_come(self):
        cluster = self.cluster((3, 1))
        while_settling_an_instance(cluster, [])
        cluster.start_run("job", [0, 1], instance=3, seconds=0.5)
        for task in (0, 1):
            status = cluster.workers[task].hear("job")
            self.assertRegex(status, r"\ADEADLINE_EXCEEDED: ")
            self.assertIn("task:2/device:CPU:0", status)

    def test_the_deadline_does_not_wait_for_who_stands_still(self):
        """In the middle of a transfer: what the stopped task has not read, in
        memory or in sockets, holds nothing up."""
        folder = self.enterContext(tempfile.TemporaryDirectory())
        make_certificates(folder, 2)
        no_memory = ["env", "WITHOUT_MEMORY_FOR_TESTS=1"]
        for prefix, certificates in [([], []), (no_memory, []),
                                     (no_memory, [folder])]:
            with self.subTest(prefix=prefix, certificates=certificates):
                cluster = self.cluster((2, 1))
                cluster.prefixes = [prefix] * 2
                cluster.certificates = certificates
                cluster.begin()
                cluster.run("first", range(2), elements=HUGE)
                cluster.start_run("job", [1], elements=HUGE)
                cluster.counts(1)  # Once it answers, it has begun the job.
                cluster.workers[1].send(signal.SIGSTOP)
                cluster.start_run("job", [0], elements=HUGE, seconds=0.5)
                self.assertRegex(cluster.workers[0].hear("job"),
                                 r"\ADEADLINE_EXCEEDED: ")
                # Task 1 is silent, and not lost yet.
                self.assertRegex(cluster.workers[0].ask("health", 1, 0.1),
                                 r"\ADEADLINE_EXCEEDED: ")

    def test_who_gives_up_ends_the_calls_of_all(self):
        """Also of who comes late; then they go on in the same step."""
        for point in (while_forming_the_group, while_settling_an_instance):
            cluster = self.cluster((3, 1))
            point(cluster, [])
            cluster.start_run("job", [0], instance=3)
            cluster.start_run("job", [1], instance=3, seconds=0.5)
            first = cluster.workers[1].hear("job")
            self.assertRegex(first, r"\ADEADLINE_EXCEEDED: ")
            self.assertIn("called by /job:worker/replica:0/task:1/", first)
            self.assertEqual(cluster.workers[0].hear("job"), first)
            cluster.start_run("job", [2], instance=3)
            self.assertEqual(cluster.workers[2].hear("job"), first)
            cluster.run("next", range(3), instance=3)

    def test_survivors_and_who_comes_back_go_on_with_another_coordinator(self):
        """The tasks that are left, whoever is lost, without a restart."""
        for culprit in range(3):
            cluster = self.cluster((3, 1))
            cluster.begin()
            tasks = list(range(3))
            survivors = [task for task in tasks if task != culprit]

            def add_up(key, among, cluster=cluster):
                for task in among:
                    cluster.workers[task].tell("named", key, *among)
                for task in among:
                    self.assertEqual(cluster.workers[task].hear("named"),
                                     f"sum {sum(among)}")

            add_up(1, tasks)
            add_up(2, survivors)
            for task in survivors:
                cluster.workers[task].tell("named", 0)  # Of all tasks.
                cluster.workers[task].tell("named", 1, *tasks)
            cluster.workers[culprit].kill()
            for task in survivors * 2:
                self.assert_blames(
                    cluster, cluster.workers[task].hear("named"), [culprit])
            add_up(2, survivors)  # It does not notice.
            add_up(3, survivors[::-1])
            cluster.start(culprit)
            cluster.join([culprit])
            add_up(4, tasks)
            add_up(2, survivors)

    def test_how_each_task_is(self):
        cluster = self.cluster((4, 1))
        cluster.begin()
        cluster.workers[1].kill()
        cluster.workers[2].kill()
        cluster.start(2)
        cluster.workers[3].send(signal.SIGSTOP)
        asks = cluster.workers[0].ask
        self.assertEqual(asks("health", 0, 60), "OK")
        for task, wanted in [(1, "UNAVAILABLE"), (2, "FAILED_PRECONDITION")]:
            status = asks("health", task, 60)
            self.assertTrue(status.startswith(f"{wanted}: "), status)
            self.assertIn(cluster.label(task), status)
        status = asks("health", 3, 0.1)
        self.assertTrue(status.startswith("DEADLINE_EXCEEDED: "), status)
        self.assertIn(cluster.label(3), status)
        status = asks("health", "/job:worker/replica:0/task:4", 60)
        self.assertTrue(status.startswith("INVALID_ARGUMENT: "), status)

    def test_a_step_is_cleaned_up_on_all_tasks_once(self):
        cluster = self.cluster((3, 1))
        while_settling_an_instance(cluster, [0, 1])
        for task in (0, 1):
            cluster.counts(task)  # Once it answers, it has begun the job.
        for _ in range(2):
            self.assertEqual(cluster.workers[2].ask("cleanup", 1), "OK")
        for task in (0, 1):
            self.assertRegex(cluster.workers[task].hear("job"),
                             r"\A(ABORTED|CANCELLED): .*")
        for worker in cluster.workers:
            self.assertEqual(worker.ask("step", 2), "OK")
        cluster.run("next", range(3))

    def test_restarts_leak_nothing_in_who_stays(self):
        cluster = self.cluster((2, 1))
        cluster.begin()
        counts = []
        for _ in range(16):
            cluster.go_on([0, 1])
            counts.append(cluster.counts(0))
            cluster.start_run("waits", [0], instance=2)
            cluster.workers[1].kill()
            self.assert_blames(cluster, cluster.workers[0].hear("waits"), [1])
            cluster.start(1)
            cluster.join([1])
            cluster.reform([0])
        for before, after in zip(counts[2], counts[-1]):
            self.assertLessEqual(after, before + SLACK, counts)

    def test_all_leave_in_peace(self):
        cluster = self.cluster((3, 1))
        while_settling_an_instance(cluster, [])
        for worker in cluster.workers:
            worker.tell("leave", PATIENCE_SECONDS)
        for worker in cluster.workers:
            self.assertEqual(worker.hear("leave"), "OK")
            worker.tell("end")
        for worker in cluster.workers:
            self.assertEqual(worker.hear("end"), "OK")
            self.assertEqual(worker.process.wait(PATIENCE_SECONDS), 0)


class ClockTest(FaultTestCase):
    """The system's time of a task is set while jobs run."""

    def clock(self, folder, task):
        return os.path.join(folder, str(task))

    def set_clock(self, folder, task, seconds):
        with open(self.clock(folder, task), "r+b") as clock:
            clock.write(struct.pack("=q", seconds * 10**9))

    def test_no_step_of_the_systems_time_has_an_effect(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        cluster = self.cluster((3, 1), "fast")
        for task in range(3):
            with open(self.clock(folder, task), "wb") as clock:
                clock.write(bytes(8))
            cluster.prefixes[task] = [
                "env", f"WALL_CLOCK_FOR_TESTS={self.clock(folder, task)}",
                "LD_PRELOAD=" + os.path.join(os.path.dirname(WORKER),
                                             "libwall_clock.so")]
        while_running_small_jobs(cluster, None)
        cluster.start_run("waits", [0], instance=2, seconds=PATIENCE_SECONDS)
        for i, (task, seconds) in enumerate([(0, -4), (2, -4), (0, 3600),
                                             (2, 5)]):
            self.set_clock(folder, task, seconds)
            # Longer than the limit after which a silent task is lost.
            cluster.start_run("alone", [1], instance=3 + i, seconds=1.5)
            status = cluster.workers[1].hear("alone")
            self.assertRegex(status, r"\ADEADLINE_EXCEEDED: ")
        cluster.start_run("waits", [1, 2], instance=2)
        for worker in cluster.workers:
            self.assertEqual(worker.hear("waits"), "OK")
            self.assertFalse([line for line in worker.unread
                              if line.startswith("job ")])


class ResetTest(FaultTestCase):
    """All connections of a task break, while all processes live: over TLS those
    of TCP, else those of Unix sockets. What moves bytes then may fail, once."""

    def hear_all(self, cluster, name):
        """What the tasks say, each that it has succeeded or that a connection
        broke under it; nobody is lost."""
        said = [worker.hear(name) for worker in cluster.workers]
        for status in said:
            if status != "OK":
                self.assert_broke(status)
        return said

    def assert_broke(self, status):
        self.assertRegex(status, r"\AUNAVAILABLE: task \d \(")
        self.assertNotIn("was lost", status)

    def check(self, culprit, certificates):
        cluster = self.cluster((3, 1))
        cluster.certificates = certificates
        tasks = range(3)
        others = [task for task in tasks if task != culprit]
        cluster.begin()
        for instance, verb in [(1, "forms the group"), (2, "settles")]:
            with self.subTest(verb):
                cluster.start_run("job", others, instance=instance)
                for task in tasks:
                    cluster.counts(task)  # Once it answers, it has begun.
                for task in (culprit, others[0]):
                    self.assertEqual(cluster.workers[task].ask("reset"), "OK")
                cluster.start_run("job", [culprit], instance=instance)
                self.hear_all(cluster, "job")
        with self.subTest("moves bytes"):
            cluster.start_run("loop", tasks, instance=3, elements=LARGE,
                              verb="loop")
            for task in tasks:
                self.assertEqual(cluster.workers[task].hear("loop"), "going")
            self.assertEqual(cluster.workers[culprit].ask("reset"), "OK")
            # Others may have ended this round, and wait in the next one.
            worker, status = hear_any(cluster.workers, "loop")
            self.assert_broke(status)
            self.assertEqual(worker.ask("cleanup", cluster.step), "OK")
            for other in cluster.workers:
                if other is not worker:
                    self.assertNotIn("was lost", other.hear("loop"))
        said = []
        while said != ["OK"] * 3:  # Soon all notice which connections are gone.
            cluster.step += 1
            for task in tasks:
                cluster.workers[task].ask("step", cluster.step)
            cluster.start_run("next", tasks)
            said = self.hear_all(cluster, "next")
        for task in tasks:
            for other in tasks:
                self.assertEqual(
                    cluster.workers[task].ask("health", other, 60), "OK")

    def check_each(self, *certificates):
        for culprit in (0, 1):
            with self.subTest(culprit=culprit):
                self.check(culprit, certificates)

    def test_of_a_tcp_connection(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        make_certificates(folder, 3)
        self.check_each(folder)

    def test_of_a_unix_socket(self):
        self.check_each()


class PartitionTest(FaultTestCase):
    """Packets vanish between two hosts, which are network namespaces with a
    third one between them that routes, or does not. For the superuser."""

    def ip(self, *words):
        self.attempt(["ip", *" ".join(words).split()])

    def attempt(self, command):
        result = subprocess.run(command, text=True, capture_output=True,
                                check=False)
        if result.returncode != 0:
            self.skipTest(f"{' '.join(command)}: {result.stderr.strip()}")

    def set_routing(self, namespace, value):
        self.attempt(["ip", "netns", "exec", namespace, "sh", "-c",
                      f"echo {value} > /proc/sys/net/ipv4/ip_forward"])

    def connect(self):
        """The namespaces: of the router, and of the hosts 10.9.0.2 and
        10.9.1.2."""
        names = [f"tutti-{os.getpid()}-{i}" for i in range(3)]
        router = names[2]
        for name in names:
            self.ip("netns add", name)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", name],
                            check=False)
            self.ip("-n", name, "link set lo up")
        for i, name in enumerate(names[:2]):
            self.ip("-n", name, f"link add eth type veth peer name eth{i} netns",
                    router)
            for where, device, address in [(name, "eth", f"10.9.{i}.2/24"),
                                           (router, f"eth{i}", f"10.9.{i}.1/24")]:
                self.ip("-n", where, f"addr add {address} dev {device}")
                self.ip("-n", where, f"link set {device} up")
            self.ip("-n", name, f"route add default via 10.9.{i}.1")
        self.set_routing(router, 1)
        return names

    def test_a_silent_partition(self):
        if shutil.which("ip") is None:
            self.skipTest("there is no program ip")
        *hosts, router = self.connect()
        cluster = self.cluster((2, 1), "fast")
        cluster.addresses = ["10.9.0.2:7000", "10.9.1.2:7000"]
        cluster.prefixes = [["ip", "netns", "exec", host] for host in hosts]
        while_running_small_jobs(cluster, None)
        self.set_routing(router, 0)
        for task in range(2):
            self.assert_blames(cluster, cluster.workers[task].hear("job"),
                               [1 - task])
        self.set_routing(router, 1)
        # Each has lost the other; so who comes back must start again.
        cluster.workers[1].kill()
        cluster.start(1)
        cluster.join([1])
        cluster.reform([0])
        cluster.go_on(range(2))


def make_certificates(folder, num_tasks):
    """ca.pem, and task-0.pem, task-0.key, ..."""
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
           "ec_paramgen_curve:P-256", "-nodes"]
    for name in ["ca", *(f"task-{task}" for task in range(num_tasks))]:
        signed = [] if name == "ca" else [
            "-CA", "ca.pem", "-CAkey", "ca.key", "-addext",
            f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=CA:FALSE"]
        subprocess.run([*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key",
                        "-out", f"{name}.pem", *signed], cwd=folder, check=True,
                       capture_output=True)


class MatrixTest(FaultTestCase):
    """Every collective among processes gives what it should: matrix.h."""

    def check(self, shape, certificates=()):
        with self.subTest(shape=shape):
            cluster = self.cluster(shape)
            cluster.certificates = certificates
            cluster.begin()
            for worker in cluster.workers:
                worker.tell("matrix")
            for worker in cluster.workers:
                self.assertEqual(worker.hear("matrix"), "OK")

    def test_every_collective_of_every_shape(self):
        for shape in [(1, 3), (2, 1), (2, 2), (4, 2), (3, 3)]:
            self.check(shape)

    def test_every_collective_with_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            make_certificates(folder, 3)
            for shape in [(2, 2), (3, 3)]:
                self.check(shape, [folder])


def add_cell(check, name, shape, *args):
    """A test method."""
    name = f"test_{name}_of_{shape[0]}x{shape[1]}"
    assert not hasattr(FaultTest, name)
    setattr(FaultTest, name, lambda self: check(self, shape, *args))


def kill(self, shape, point, culprits):
    self.check_fault(shape, point, culprits, Worker.kill)


def add_cells():
    for shape in SHAPES:
        last = shape[0] - 1
        for who, culprit in {"rank": last, "leader": 0}.items():
            for point in POINTS:
                name = f"{who}_{point.__name__}"
                add_cell(kill, f"kill_{name}", shape, point, [culprit])
                if point is not while_running_large_jobs:
                    add_cell(FaultTest.check_restart, f"restart_{name}", shape,
                             point, culprit)
            add_cell(FaultTest.check_kill_between_jobs,
                     f"kill_{who}_between_jobs", shape, culprit)
            add_cell(FaultTest.check_late_start, f"late_start_of_{who}", shape,
                     culprit)
        if shape[0] > 2:
            for point in POINTS:
                add_cell(kill, f"kill_two_{point.__name__}", shape, point,
                         [0, last])
    for point in POINTS:
        for who, culprit in {"rank": 1, "leader": 0}.items():
            add_cell(FaultTest.check_zombie, f"stop_{who}_{point.__name__}",
                     (2, 1), point, [culprit])
        add_cell(FaultTest.check_zombie, f"stop_two_{point.__name__}", (4, 2),
                 point, [1, 3])
    add_cell(FaultTest.check_pause, "pause_rank_while_running", (3, 1),
             while_running_small_jobs, 1)
    add_cell(FaultTest.check_pause, "pause_leader_while_settling", (3, 1),
             while_settling_an_instance, 0)
    for who, culprit in {"rank": 2, "leader": 0}.items():
        add_cell(FaultTest.check_never_starts, f"{who}_never_starts", (3, 1),
                 culprit)


add_cells()

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
