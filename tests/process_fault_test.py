#!/usr/bin/env python3
"""Kills, stops and restarts processes that run collectives together.

usage: process_fault_test.py FAULT_WORKER TUTTI

Each test is a cell: a shape, a fault, and what the processes were doing. No
survivor may hang, each says who is to blame, and the survivors can go on.
"""

import collections
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

WORKER = os.path.abspath(sys.argv[1])
TUTTI = os.path.abspath(sys.argv[2])

# What says who takes part; no test is to see what the machine says.
FOREIGN = re.compile("TUTTI_|SLURM_")

# When a test gives up on a process. Nothing takes a tenth of it.
PATIENCE_SECONDS = 60

# Tasks, and devices of each.
SHAPES = [(2, 1), (3, 1), (4, 2)]

GROUP = 7
SMALL = 7  # Elements, of eight bytes.
LARGE = 300_001

# Descriptors and threads that a process may have more of after a fault: those
# of gRPC's attempts to reach who is gone, and of its pool.
SLACK = 8


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
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            for i, line in enumerate(self.unread):
                if line.startswith(name + " "):
                    del self.unread[i]
                    return line[len(name) + 1:]
            self.read_some(name, deadline)

    def read_some(self, wanted, deadline):
        output = self.process.stdout
        left = max(0, deadline - time.monotonic())
        data = b""
        if select.select([output], [], [], left)[0]:
            data = os.read(output.fileno(), 65536)
        if not data:
            raise AssertionError(
                f"waited for \"{wanted}\", got only {self.said} {self.rest}; "
                f"exit status {self.process.poll()}")
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.said += [line.decode() for line in lines]
        self.unread.extend(line.decode() for line in lines)

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

    def label(self, task):
        return f"task {task} ({self.addresses[task]})"

    def start(self, task):
        """A process that listens, in the place of the one there was."""
        self.ports.sockets[task].close()
        worker = Worker([WORKER, ",".join(self.addresses), str(task),
                         str(self.devices), self.profile])
        self.test.addCleanup(worker.close)
        self.workers[task] = worker
        self.test.assertEqual(worker.hear("create"), "OK")
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

    def tell_run(self, name, members, among=None, instance=1, elements=SMALL,
                 verb="run", seconds=""):
        """Has the members, of a group of the tasks `among`, run a job."""
        among = list(range(self.num_tasks)) if among is None else list(among)
        for task in members:
            self.workers[task].tell(
                verb, name, GROUP, len(among) * self.devices,
                among.index(task) * self.devices, instance, elements, seconds)

    def run(self, name, among, **options):
        """A job of all these tasks, which succeeds."""
        self.tell_run(name, among, among, **options)
        for task in among:
            self.test.assertEqual(self.workers[task].hear(name), "OK")

    def reform(self, tasks):
        for task in tasks:
            self.test.assertEqual(self.workers[task].ask("reform", GROUP), "OK")

    def counts(self, task):
        return [int(n) for n in self.workers[task].ask("count").split()]


# What the tasks do when the fault comes. Each has the tasks `active` wait or
# work under the name "job"; the others are about to.

def while_forming_the_group(cluster, active):
    cluster.begin()
    cluster.tell_run("job", active)


def while_settling_an_instance(cluster, active):
    cluster.begin()
    cluster.run("first", range(cluster.num_tasks))
    cluster.tell_run("job", active, instance=2)


def loop(cluster, elements):
    tasks = range(cluster.num_tasks)
    cluster.begin()
    cluster.tell_run("job", tasks, elements=elements, verb="loop")
    for task in tasks:
        cluster.test.assertEqual(cluster.workers[task].hear("job"), "going")


def while_running_small_jobs(cluster, _):
    loop(cluster, SMALL)


def while_running_large_jobs(cluster, _):
    loop(cluster, LARGE)


POINTS = [while_forming_the_group, while_settling_an_instance,
          while_running_small_jobs, while_running_large_jobs]


class FaultTest(unittest.TestCase):

    def cluster(self, shape, profile="default"):
        return Cluster(self, shape, profile)

    def assert_blames(self, cluster, status, culprits):
        self.assertRegex(status, r"\AUNAVAILABLE: ")
        named = {task for task in range(cluster.num_tasks)
                 if cluster.label(task) in status}
        self.assertTrue(named, status)
        self.assertLessEqual(named, set(culprits), status)

    def check_survivors(self, cluster, culprits):
        """Their jobs end; then they form a group of their own."""
        survivors = [task for task in range(cluster.num_tasks)
                     if task not in culprits]
        for task in survivors:
            self.assert_blames(cluster, cluster.workers[task].hear("job"),
                               culprits)
        cluster.reform(survivors)
        cluster.run("next", survivors)
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
        for task in survivors:
            self.assertLessEqual(
                [n - SLACK for n in cluster.counts(task)], before[task])
        return cluster


def add_cell(function, *parts):
    """A test method."""
    name = "_".join(["test", *parts])
    assert not hasattr(FaultTest, name)
    setattr(FaultTest, name, function)


def add_kills():
    for shape in SHAPES:
        last = shape[0] - 1
        victims = {"rank": [last], "leader": [0], "two": [0, last]}
        for who, culprits in victims.items():
            if len(culprits) == shape[0]:
                continue
            for point in POINTS:
                def cell(self, shape=shape, point=point, culprits=culprits):
                    self.check_fault(shape, point, culprits, Worker.kill)
                add_cell(cell, "kill", who, "of", f"{shape[0]}x{shape[1]}",
                         point.__name__)


add_kills()

if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
