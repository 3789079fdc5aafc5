#!/usr/bin/env python3
"""Runs collectives of all kinds between four processes for a long time.

Every result is checked. What each process holds is counted after each batch
(some 60 collectives of 4 bytes to 16 MiB), when nothing runs; from the end of
the warm-up, a tenth of the time, it may not grow: the median of the last quarter
of the batches against that of the first. Nothing depends on how fast it goes.
Ends with a line "N passed, N failed", of checks.
"""

import argparse
import contextlib
import math
import statistics
import sys
import time

from workers import WorkerError, Workers, free_addresses

TASKS = 4
DEVICES = 2  # Of each task.
MIB = 1 << 20

# What the workers count, and by how much it may grow: by what gRPC's own threads
# hold at the moment, and by holes in the heap.
BOUNDS = {
    "resident bytes": 3 * MIB,
    "heap bytes in use": MIB,
    "file descriptors": 2,
    "threads": 2,
    "settled instances": 0,
    "waiting calls": 0,
}

# Fewer say nothing: the first and the last quarter must have some.
FEWEST_BATCHES = 12

REPORT_SECONDS = 30


def run(workers, seconds):
    """What was counted: [batch][task][count], after the warm-up."""
    begin = time.monotonic()
    kept, last_report, num_batches = [], begin, 0
    while True:
        batch = [list(map(int, answer.split()))
                 for answer in workers.ask("batch")]
        now = time.monotonic()
        num_batches += 1
        if now - begin >= seconds / 10:
            kept.append(batch)
        done = now - begin >= seconds and len(kept) >= FEWEST_BATCHES
        if done or now - last_report >= REPORT_SECONDS:
            last_report = now
            print(f"{now - begin:.0f} s, {num_batches} batches; task 0: " +
                  ", ".join(f"{count} {name}"
                            for count, name in zip(batch[0], BOUNDS)))
        if done:
            return kept


def growth(values):
    quarter = len(values) // 4
    return (statistics.median(values[-quarter:]) -
            statistics.median(values[:quarter]))


def check(batches):
    """Prints what is wrong; returns how many counts are right, and wrong."""
    passed = failed = 0
    for i, (name, bound) in enumerate(BOUNDS.items()):
        grown = [growth([batch[task][i] for batch in batches])
                 for task in range(TASKS)]
        print(f"{name}: grew by {', '.join(f'{one:.0f}' for one in grown)}; "
              f"bound {bound}")
        for task, one in enumerate(grown):
            if one <= bound:
                passed += 1
                continue
            failed += 1
            print(f"FAILED: {name} of task {task} grew by {one:.0f}, more than "
                  f"{bound}: from", *(batch[task][i] for batch in batches[:5]),
                  "to", *(batch[task][i] for batch in batches[-5:]))
    return passed, failed


def minutes(text):
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f'"{text}" is no time')
    return value


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="./dev soak", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worker", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=minutes, default=60, metavar="N",
                        help="how long [default: 60]")
    parser.add_argument("--seed", type=int, default=1, metavar="N",
                        help="of what runs, and in which order [default: 1]")
    return parser.parse_args(argv)


def main(argv):
    args = parse(argv)
    sys.stdout.reconfigure(line_buffering=True)
    print(f"{TASKS} tasks with {DEVICES} devices each, {args.minutes:g} minutes, "
          f"seed {args.seed}")
    addresses = ",".join(free_addresses(TASKS))
    with contextlib.ExitStack() as stack:
        try:
            workers = Workers(
                [[args.worker, addresses, str(task), str(DEVICES),
                  str(args.seed)] for task in range(TASKS)], patience=600)
            stack.callback(workers.close)
            batches = run(workers, 60 * args.minutes)
        except WorkerError as error:
            print(f"FAILED: {error}")
            print("0 passed, 1 failed")
            return 1
    passed, failed = check(batches)
    # That all results were right is one, too.
    print(f"{passed + 1} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
