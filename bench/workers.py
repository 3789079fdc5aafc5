"""Processes that do something together, each time that they are told to."""

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
            lines = [worker.stdout.readline() for worker in self.workers]
        finally:
            watchdog.cancel()
        answers = []
        for worker, line in zip(self.workers, lines):
            word, _, rest = line.strip().partition(" ")
            if word != wanted:
                raise WorkerError(f"{worker.args[0]}: "
                                  f"{line.strip() or self.last_words()}")
            answers.append(rest)
        return answers

    def last_words(self):
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").split("\n")
        said = [line for line in lines if line.strip()]
        return said[-1].strip() if said else "ended without a word"

    def ask(self, line):
        """What each of them answers after "OK"."""
        for worker in self.workers:
            try:
                worker.stdin.write(line + "\n")
                worker.stdin.flush()
            except BrokenPipeError:
                pass  # What there is to say is where hear() looks.
        return self.hear("OK")

    def times(self, collective, num_bytes, warmup, calls):
        """Seconds of each call, by the slowest of workers that speak the
        language of serve_calls.h."""
        by_worker = [
            [int(word) for word in answer.split()] for answer in
            self.ask(f"{collective} {num_bytes} {warmup} {calls}")]
        return [max(of_call) / 1e9
                for of_call in zip(*filter(None, by_worker))]

    def median(self, *job):
        return statistics.median(self.times(*job))

    def kill(self):
        for worker in self.workers:
            worker.kill()

    def close(self):
        """They end at the end of their input."""
        for worker in self.workers:
            try:
                worker.stdin.close()
            except BrokenPipeError:
                pass
        for worker in self.workers:
            try:
                worker.wait(timeout=10)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
            worker.stdout.close()
        self.errors.close()
