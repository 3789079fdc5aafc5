#!/usr/bin/env python3
"""Compares the times that `tutti simulate` works out with measured ones.

All-reduces by algorithms that send messages, among the devices of this process
and between processes on loopback. For each layout the machine of the simulation
is calibrated: latency, bandwidth, time per message and speed of reduction are
those that come nearest to every other size measured (marked *); the sizes
between are predicted. Measured times are medians over rounds of `tutti perf`'s
p50, in which the algorithms take turns.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from comparison import MIB, machine, print_aim, print_table, text_of

ALGORITHMS = ["RingReduce", "RecursiveDoublingReduce",
              "RecursiveHalvingDoublingReduce", "TreeReduce",
              "DoubleTreeReduce"]
LAYOUTS = ["1x2", "1x4", "1x8", "2x1", "4x1"]
MIN_BYTES, MAX_BYTES, FACTOR = 1 << 10, 16 * MIB, 4
AGREEMENT = 0.25
NEVER = 1e9  # GB/s that take no time.

# What of the machine is calibrated: microseconds, and microseconds per KiB.
# Each is here the only thing that takes time, and then as much as 1.
KIB_PER_US = (1 << 10) / 1e3  # In GB/s.
PARTS = {
    "latency": {"latency_us": 1},
    "message": {"message_us": 1},
    "transfer": {"gb_per_s": KIB_PER_US},
    "reduction": {"reduced_gb_per_s": KIB_PER_US,
                  "copied_gb_per_s": KIB_PER_US},
}


def topology(latency_us=0, message_us=0, gb_per_s=NEVER,
             reduced_gb_per_s=NEVER, copied_gb_per_s=NEVER):
    return {"links": [{"name": "all", "latency_us": latency_us,
                       "gb_per_s": gb_per_s}],
            "message_us": message_us, "reduced_gb_per_s": reduced_gb_per_s,
            "copied_gb_per_s": copied_gb_per_s}


def calibrated(costs):
    """The machine with so much of each part."""
    return topology(
        latency_us=costs["latency"], message_us=costs["message"],
        gb_per_s=min(NEVER, KIB_PER_US / max(costs["transfer"], 1e-9)),
        reduced_gb_per_s=min(NEVER, KIB_PER_US / max(costs["reduction"], 1e-9)),
        copied_gb_per_s=min(NEVER, KIB_PER_US / max(costs["reduction"], 1e-9)))


def fit(rows, measured, sweeps=2000):
    """x >= 0 for which the sums of row[k] * x[k] come nearest to what was
    measured, in least squares of relative errors; one part after the other."""
    rows = [[value / time for value in row]
            for row, time in zip(rows, measured)]
    x = [0.0] * len(rows[0])
    left = [1.0] * len(rows)  # 1 less what x explains.
    for _ in range(sweeps):
        for k in range(len(x)):
            squares = sum(row[k] ** 2 for row in rows)
            if squares == 0:
                continue
            step = sum(row[k] * rest for row, rest in zip(rows, left)) / squares
            step = max(step, -x[k])
            x[k] += step
            left = [rest - row[k] * step for row, rest in zip(rows, left)]
    return x


class Simulator:

    def __init__(self, tutti, folder):
        self.tutti = tutti
        self.file = pathlib.Path(folder) / "topology.json"

    def microseconds(self, algorithm, layout, num_bytes, cluster):
        self.file.write_text(json.dumps(cluster))
        result = subprocess.run(
            [self.tutti, "simulate", algorithm, "--layout", layout, "--bytes",
             str(num_bytes), "--topology", self.file, "--json"],
            check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(result.stdout)["time_us"]


def measure(tutti, layout, rounds):
    """{(algorithm, bytes): microseconds}"""
    tasks, devices = map(int, layout.split("x"))
    perf = ["perf", "all_reduce", "--json", "--algorithm", ",".join(ALGORITHMS),
            "--min-bytes", str(MIN_BYTES), "--max-bytes", str(MAX_BYTES),
            "--factor", str(FACTOR)]
    if tasks == 1:
        command = [tutti, *perf, "--devices", str(devices)]
    else:
        command = [tutti, "launch", "--tasks", str(tasks), "--", *perf]
    times = {}
    for _ in range(rounds):
        result = subprocess.run(command, check=True, stdout=subprocess.PIPE,
                                text=True)
        for row in json.loads(result.stdout):
            times.setdefault((row["algorithm"], row["bytes"]), []).append(
                row["p50_us"])
    return {point: statistics.median(of_rounds)
            for point, of_rounds in times.items()}


def calibrate(simulator, layout, measured):
    """{part: cost}, from the points measured."""
    rows = [[simulator.microseconds(algorithm, layout, num_bytes,
                                    topology(**part))
             for part in PARTS.values()] for algorithm, num_bytes in measured]
    return dict(zip(PARTS, fit(rows, list(measured.values()))))


def compare(simulator, layout, measured):
    """Prints a table; returns the ratios of simulated to measured times of the
    points that are predicted."""
    sizes = sorted({num_bytes for _, num_bytes in measured})
    known = {point: time for point, time in measured.items()
             if point[1] in sizes[::2]}
    costs = calibrate(simulator, layout, known)
    cluster = calibrated(costs)
    where = "devices of one process" if layout.startswith("1x") else (
        "processes on loopback")
    print(f"\n{layout}: {where}; " + ", ".join(
        f"{part} {cost:.3g} us" + ("/KiB" if part in ("transfer", "reduction")
                                   else "") for part, cost in costs.items()))
    ratios = {
        (algorithm, num_bytes): simulator.microseconds(
            algorithm, layout, num_bytes, cluster) / time
        for (algorithm, num_bytes), time in measured.items()}
    print_table(["bytes", *ALGORITHMS], [
        [text_of(size) + (" *" if size in sizes[::2] else "  "),
         *(f"{ratios[name, size]:.2f}" for name in ALGORITHMS)]
        for size in sizes])
    return [ratio for point, ratio in ratios.items() if point not in known]


def num_near(ratios):
    return sum(1 - AGREEMENT <= ratio <= 1 + AGREEMENT for ratio in ratios)


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="./dev bench simulated", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, metavar="N",
                        help="runs of `tutti perf` [default: 5]")
    parser.add_argument("--layouts", type=lambda text: text.split(","),
                        default=LAYOUTS, metavar="TxD,...",
                        help="one task: devices of one process; several: one "
                        "device each, on loopback [default: "
                        f"{','.join(LAYOUTS)}]")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error("wanted at least one round")
    return args


def main(argv):
    args = parse(argv)
    sys.stdout.reconfigure(line_buffering=True)
    print(f"simulated / measured times of all_reduce; {machine()}; "
          f"{datetime.date.today()}; load {os.getloadavg()[0]:.1f}")
    near = {}
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(args.tutti, folder)
        for layout in args.layouts:
            ratios = compare(simulator, layout,
                             measure(args.tutti, layout, args.rounds))
            near[layout] = (num_near(ratios), len(ratios))
    print("\naims")
    for layout, (count, total) in near.items():
        print_aim(count == total,
                  f"{layout}: within {AGREEMENT:.0%} of the measured time for "
                  f"{count} of {total} predicted points")


if __name__ == "__main__":
    main(sys.argv[1:])
