#!/usr/bin/env python3
"""Measures what it costs a task to belong to a job, for several numbers of
tasks on this machine.

Each task is a process, with one group of all. Figures: seconds from the start
of the processes to the end of the first all-reduce; then, while nothing runs,
the processor time of all tasks together as a share of one processor, and of the
task with most of them file descriptors, threads and resident memory. Another
build takes turns with this one (--than).
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

from workers import WorkerError, Workers, free_addresses

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
SETTLE_SECONDS = 65  # Connections of the start that are not needed close.
CALL = "all_reduce 4 0 1"


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1]
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / TICKS


def most(pids, figure):
    return max(figure(pathlib.Path(f"/proc/{pid}")) for pid in pids)


def count(folder):
    return sum(1 for _ in folder.iterdir())


def measure(program, num_tasks, seconds):
    """Figures of one job, by name."""
    addresses = ",".join(free_addresses(num_tasks))
    began = time.monotonic()
    job = Workers([[program, "unix", addresses, str(task)]
                   for task in range(num_tasks)])
    try:
        job.ask(CALL)
        start = time.monotonic() - began
        pids = [worker.pid for worker in job.workers]
        time.sleep(SETTLE_SECONDS)
        before = sum(map(processor_seconds, pids))
        began = time.monotonic()
        time.sleep(seconds)
        idle = sum(map(processor_seconds, pids)) - before
        idle /= time.monotonic() - began
        return {
            "start (s)": start,
            "idle (% of a processor)": 100 * idle,
            "idle, of each task (%)": 100 * idle / num_tasks,
            "descriptors": most(pids, lambda one: count(one / "fd")),
            "descriptors, median": statistics.median(
                count(pathlib.Path(f"/proc/{pid}/fd")) for pid in pids),
            "threads": most(pids, lambda one: count(one / "task")),
            "memory (MB)": most(pids, lambda one: int(
                (one / "statm").read_text().split()[1]) * PAGE / 1e6),
        }
    finally:
        job.close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--than", help="tutti_worker of another build")
    parser.add_argument("--tasks", type=int, nargs="+",
                        default=[8, 16, 32, 64])
    parser.add_argument("--seconds", type=float, default=20,
                        help="length of the idle time (default: 20)")
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    builds = {"this": options.tutti}
    if options.than:
        builds["other"] = options.than
    for num_tasks in options.tasks:
        figures = {name: [] for name in builds}
        for _ in range(options.rounds):
            for name, program in builds.items():
                try:
                    figures[name].append(
                        measure(program, num_tasks, options.seconds))
                except WorkerError as error:
                    sys.exit(f"{num_tasks} tasks, {name}: {error}")
        print(f"{num_tasks} tasks" +
              "".join(f"{name:>12}" for name in builds))
        for figure in figures["this"][0]:
            medians = [statistics.median(one[figure] for one in rounds)
                       for rounds in figures.values()]
            print(f"  {figure:26}" + "".join(f"{one:12.2f}" for one in medians),
                  flush=True)


if __name__ == "__main__":
    main()
