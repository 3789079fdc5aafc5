#!/usr/bin/env python3
"""Kills and stops processes of mpirun that run collectives together.

usage: mpi_fault_test.py FAULT_WORKER LIBRARY

LIBRARY is host_name.cc.
"""

import os
import select
import signal
import subprocess
import sys
import time
import unittest

from mpi_job import mpi_environment, place_on_hosts

WORKER = os.path.abspath(sys.argv[1])
LIBRARY = sys.argv[2]

# At most, from the death of a process to the end of all others: a promise.
SECONDS_TO_END = 10

SMALL = 7  # Elements, of eight bytes.
LARGE = 1 << 20


class Job:
    """Workers under mpirun, each with commands of its own."""

    def __init__(self, test, environment, size, script="", options=()):
        self.commands = []
        for rank in range(size):
            path = os.path.join(environment["TMPDIR"], f"commands{rank}")
            os.mkfifo(path)
            self.commands.append(open(os.open(path, os.O_RDWR), "w",
                                      buffering=1, encoding="ascii"))
            test.addCleanup(self.commands[-1].close)
        self.mpirun = subprocess.Popen(
            ["mpirun", *options, "-n", str(size), "sh", "-c",
             'exec <"$TMPDIR/commands$OMPI_COMM_WORLD_RANK"; '
             f'echo pid $OMPI_COMM_WORLD_RANK $$; {script} exec "$@"', "sh",
             WORKER, "MPI", "", "0", "1", "default"],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=environment)
        test.addCleanup(self.mpirun.kill)
        self.pids = dict(map(int, line.split()) for line in
                         self.hear("pid", size))

    def tell(self, command):
        """To all; "{rank}" in it is that of each, "{size}" how many they are."""
        for rank, commands in enumerate(self.commands):
            print(command.format(rank=rank, size=len(self.commands)),
                  file=commands)

    def hear(self, name, count):
        """The rest of the next lines that begin with the name; fewer where the
        job ends."""
        heard = []
        for line in self.mpirun.stdout:
            if line.startswith(name + " "):
                heard.append(line[len(name) + 1:].strip())
            if len(heard) == count:
                break
        return heard

    def do(self, name, arguments, wanted="OK"):
        """All do it, with that result."""
        self.tell(f"{name} {arguments}")
        said_by = arguments.split()[0] if name in ("run", "loop") else name
        heard = self.hear(said_by, len(self.commands))
        assert heard == [wanted] * len(self.commands), heard

    def end(self):
        """What is said of errors to the end, which nobody holds up."""
        for commands in self.commands:
            commands.close()
        return self.mpirun.communicate(timeout=SECONDS_TO_END + 30)[1]


class MpiFaultTest(unittest.TestCase):

    def loop(self, environment, algorithm, elements, **kwargs):
        """Three processes that run all-reduces."""
        job = Job(self, environment, 3, **kwargs)
        job.do("join", "60")
        job.do("loop", f"job 7 {{size}} {{rank}} 1 {elements} {algorithm}",
               "going")
        return job

    def check_good(self, job):
        job.do("join", "60")
        job.do("run", f"job 7 {{size}} {{rank}} 1 {SMALL}")
        job.do("leave", "60")
        self.assertEqual((job.end(), job.mpirun.returncode), ("", 0))

    def test_no_windows_of_mpis_are_needed(self):
        """Of its components for them only one can share memory."""
        for components in ["ucx", "pt2pt", "^sm"]:
            with self.subTest(components), mpi_environment() as environment:
                self.check_good(Job(
                    self, environment | {"OMPI_MCA_osc": components}, 2))

    def test_a_process_that_dies_ends_the_job(self):
        for num_hosts, rank, number, algorithm, elements in [
                (1, 1, signal.SIGKILL, "RingReduce", SMALL),
                (3, 1, signal.SIGKILL, "RingReduce", SMALL),
                (1, 0, signal.SIGKILL, "MpiReduce", LARGE),
                (1, 2, signal.SIGABRT, "RingReduce", SMALL)]:
            with self.subTest(num_hosts=num_hosts, rank=rank, number=number), \
                    mpi_environment() as environment:
                options = [] if num_hosts == 1 else place_on_hosts(
                    environment, LIBRARY, num_hosts, 1)
                # Every process holds it open for writing as long as it lives.
                held = os.path.join(environment["TMPDIR"], "held")
                os.mkfifo(held)
                reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
                self.addCleanup(os.close, reader)
                job = self.loop(environment, algorithm, elements,
                                script=f'exec 9>"{held}";', options=options)
                end_by = time.monotonic() + SECONDS_TO_END
                os.kill(job.pids[rank], number)
                _, errors = job.mpirun.communicate(timeout=SECONDS_TO_END)
                self.assertNotEqual(job.mpirun.returncode, 0)
                # In one line; the others have nothing to add.
                told = [line for line in errors.splitlines()
                        if line.startswith("mpirun noticed that ")]
                self.assertEqual(len(told), 1, errors)
                self.assertRegex(told[0],
                                 rf" rank {rank} .* signal {number:d} ")
                self.assertNotIn("tutti:", errors)
                none_left = select.poll()
                none_left.register(reader, select.POLLHUP)
                left_ms = max(0, 1000 * (end_by - time.monotonic()))
                self.assertEqual(none_left.poll(left_ms),
                                 [(reader, select.POLLHUP)])

    def test_a_process_that_stands_still_ends_the_job(self):
        """Also in a collective of MPI's, which keeps the tensors."""
        for algorithm, elements in [("RingReduce", SMALL), ("MpiReduce", LARGE)]:
            with self.subTest(algorithm), mpi_environment() as environment:
                job = self.loop(environment, algorithm, elements)
                os.kill(job.pids[1], signal.SIGSTOP)
                for status in job.hear("job", 2):
                    self.assertRegex(status, "UNAVAILABLE|ABORTED")
                errors = job.end()
                self.assertNotEqual(job.mpirun.returncode, 0)
                self.assertRegex(
                    errors, r"tutti: MPI: rank [02] has waited 10s for .* lost: "
                    r"rank 1 \(task 1 .* was lost: .*\); it ends the job\n")

    def test_a_process_that_stands_still_before_mpi_is_up_is_waited_for(self):
        """The others say so, and go on when it does."""
        script = "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then kill -STOP $$; fi;"
        with mpi_environment() as environment:
            job = Job(self, environment, 2, script)
            self.assertRegex(
                job.mpirun.stderr.readline(),
                r"\Atutti: MPI: process \d+ has waited 10s for MPI to come up")
            os.kill(job.pids[1], signal.SIGCONT)
            self.check_good(job)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
