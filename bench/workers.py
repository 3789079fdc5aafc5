"""Processes that do something together, each time that they are told to."""

import contextlib
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import threading

# When processes that do not answer are given up.
PATIENCE_SECONDS = 120


class WorkerError(Exception):
    """A process ended, hung or answered with an error."""


def free_addresses(count, host="127.0.0.1"):
    """Of ports that are free now, each "HOST:PORT"."""
    sockets = [socket.create_server((host, 0)) for _ in range(count)]
    addresses = [f"{host}:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


class Workers:
    """One process for each command. They begin with a line "READY" with their
    version, and answer each line of their input with one that begins with "OK"
    or "ERROR"."""

    def __init__(self, commands, environment=None, patience=PATIENCE_SECONDS):
        self.patience = patience  # Seconds for an answer.
        self.errors = tempfile.TemporaryFile()
        self.workers = [
            subprocess.Popen(command, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=self.errors,
                             text=True, env=environment)
            for command in commands]
        try:
            ready = self.hear("READY")
        except WorkerError:
            self.close()
            raise
        self.version = ready[0]

    def hear(self, wanted):
        """What follows the word `wanted` in each worker's next line."""
        watchdog = threading.Timer(self.patience, self.kill)
        watchdog.start()
        try:
            lines = [output.readline() for output in self.outputs()]
        finally:
            watchdog.cancel()
        answers = []
        for line in lines:
            word, _, rest = line.strip().partition(" ")
            if word != wanted:
                raise WorkerError(f"{self.workers[0].args[0]}: "
                                  f"{line.strip() or self.last_words()}")
            answers.append(rest)
        return answers

    def outputs(self):
        """Where each next answer comes from."""
        return [worker.stdout for worker in self.workers]

    def inputs(self):
        """Where each is told what to do."""
        return [worker.stdin for worker in self.workers]

    def last_words(self):
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").split("\n")
        said = [line for line in lines if line.strip()]
        return said[-1].strip() if said else "ended without a word"

    def ask(self, line):
        """What each of them answers after "OK"."""
        for one in self.inputs():
            with contextlib.suppress(BrokenPipeError):
                # What there is to say then is where hear() looks.
                one.write(line + "\n")
                one.flush()
        return self.hear("OK")

    def times(self, collective, num_bytes, warmup, calls):
        """Seconds of each call, of each of workers that speak the language of
        serve_calls.h and say times."""
        return list(filter(None, (
            [int(word) / 1e9 for word in answer.split()] for answer in
            self.ask(f"{collective} {num_bytes} {warmup} {calls}"))))

    def median(self, *job):
        """Of the calls, each as long as with the slowest worker."""
        return statistics.median(map(max, zip(*self.times(*job))))

    def median_or_mean(self, *job):
        """As median(), or the mean of the slowest worker, which is less where
        workers keep each other waiting for a processor."""
        times = self.times(*job)
        return min(statistics.median(map(max, zip(*times))),
                   max(map(statistics.mean, times)))

    def kill(self):
        for worker in self.workers:
            worker.kill()

    def close(self):
        """They end at the end of their input."""
        inputs = [worker.stdin for worker in self.workers]
        for one in [*self.inputs(), *inputs]:
            with contextlib.suppress(BrokenPipeError):
                one.close()
        for worker in self.workers:
            try:
                worker.wait(timeout=10)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            worker.stdout.close()
        self.errors.close()


class LaunchedWorkers(Workers):
    """Workers that one command starts, which passes on what they say: a line of
    each, in any order. The last word of the command is a folder, in which worker
    i opens the file "i" before it is ready, and reads that instead of its
    standard input."""

    def __init__(self, command, count, environment=None, **options):
        self.count = count
        self.stack = contextlib.ExitStack()
        with self.stack:
            folder = self.stack.enter_context(tempfile.TemporaryDirectory())
            paths = [pathlib.Path(folder) / str(i) for i in range(count)]
            self.jobs = []
            for path in paths:
                os.mkfifo(path)
                # Opened for both ways, it waits for nobody.
                self.jobs.append(self.stack.enter_context(
                    os.fdopen(os.open(path, os.O_RDWR), "w")))
            super().__init__([[*command, folder]], environment, **options)
            self.stack = self.stack.pop_all()

    def outputs(self):
        return [self.workers[0].stdout] * self.count

    def inputs(self):
        return self.jobs

    def close(self):
        super().close()
        self.stack.close()
