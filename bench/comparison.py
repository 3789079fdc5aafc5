"""What the scripts that compare have in common: turns, figures and tables."""

import os
import pathlib
import statistics
import sys

MIB = 1 << 20


def calls_of(num_bytes, most=100):
    """(warm-up, calls) of one turn: some tens of milliseconds each."""
    return 2, max(3, min(most, 100 * MIB // (num_bytes + MIB)))


def text_of(num_bytes):
    for unit, size in (("MiB", MIB), ("KiB", 1 << 10)):
        if num_bytes >= size:
            return f"{num_bytes // size} {unit}"
    return f"{num_bytes} B"


def median_ratio(some, others):
    """Of the ratios in each round."""
    return statistics.median(a / b for a, b in zip(some, others))


def take_turns(contenders, sizes, rounds):
    """{size: {name: [seconds of each round]}}, by functions of sizes."""
    times = {}
    for size in sizes:
        if sys.stderr.isatty():
            print(f"measuring {text_of(size)} ...", file=sys.stderr)
        times[size] = {name: [] for name in contenders}
        for _ in range(rounds + 1):
            for name, measure in contenders.items():
                times[size][name].append(measure(size))
        for of_rounds in times[size].values():
            del of_rounds[0]  # Met the size for the first time.
    return times


def print_table(header, rows):
    widths = [max(len(row[i]) for row in [header, *rows])
              for i in range(len(header))]
    for row in [header, *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths)))


def print_aim(is_met, text):
    print("  met:   " if is_met else "  MISSED:", text)


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().split("\n"):
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return "unknown processor"


def machine():
    return f"{processor()}, {os.cpu_count()} processors"
