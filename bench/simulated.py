#!/usr/bin/env python3
"""Compares the times that `tutti simulate` works out with measured ones.

All-reduces by algorithms that send messages, among the devices of this process
and between processes on loopback. The machine of the simulation is one host
that has all tasks and the processors of this machine. For each layout it is
calibrated: latency, time per message, and speeds of transfer and of reduction
are those that come nearest to every other size measured (marked *); the sizes
between are predicted. Speeds are those of small or of large messages: the
engine gives those above 256 KiB within a process to other processors, past the
caches of who has them, and tasks of a host read those from 128 KiB on in each
other's memory, for which they have to exchange more, so that the time per
message is another, too.
"""

import json
import os
import pathlib
import sys
import tempfile

from comparison import MIB, print_aim, print_table, text_of
from tool_runs import begin, fastest_times, json_of, parse

ALGORITHMS = ["RingReduce", "RecursiveDoublingReduce",
              "RecursiveHalvingDoublingReduce", "TreeReduce",
              "DoubleTreeReduce"]
LAYOUTS = ["1x2", "1x4", "1x8", "2x1", "4x1"]
SIZES = 1 << 10, 16 * MIB, 4  # From, to, and the factor between them.
AGREEMENT = 0.25
NEVER = 1e9  # GB/s that take no time.

# What of the machine is calibrated: microseconds, and microseconds per KiB. A
# reduction is what it takes more than to receive.
KIB_PER_US = (1 << 10) / 1e3  # In GB/s.
GUESS = {"latency": 1, "message": 1, "transfer": 0.1, "reduction": 0.1,
         "large transfer": 0.1, "large reduction": 0.1}


def guess(layout):
    return GUESS if layout.startswith("1x") else {**GUESS, "large message": 1}


def largest_small_message(layout):
    """kInlineBytes of the engine, kMinMemoryBytes of the transport."""
    return 256 << 10 if layout.startswith("1x") else (128 << 10) - 1


def gb_per_s(us_per_kib):
    return min(NEVER, KIB_PER_US / max(us_per_kib, 1e-9))


def calibrated(costs, is_large):
    """The machine with so much of each part, for such messages."""
    if is_large:
        message = costs.get("large message", costs["message"])
    else:
        message = costs["message"]
    transfer, reduction = (
        costs[f"large {part}" if is_large else part]
        for part in ("transfer", "reduction"))
    reduced = gb_per_s(transfer + reduction)
    return {"links": [{"name": "all", "latency_us": costs["latency"],
                       "gb_per_s": gb_per_s(transfer)}],
            "message_us": message, "reduced_gb_per_s": reduced,
            "copied_gb_per_s": reduced,
            "host": {"processors": len(os.sched_getaffinity(0))}}


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


def rates_of_change(time_of, costs):
    """How much longer it takes per unit of each part. Where several processors
    are at work this depends on the others, but twice of all is twice the time:
    the sum of parts times changes is the time."""
    time = time_of(costs)
    step = 1e-3 * max(costs.values())
    return [(time_of({**costs, part: cost + step}) - time) / step
            for part, cost in costs.items()]


def squares(times_of, measured, costs):
    return sum((time_of(costs) / time - 1) ** 2
               for time_of, time in zip(times_of, measured))


def calibrate(times_of, measured, start, steps=8):
    """The costs by which functions of costs come nearest to what was measured,
    as fit(): from a start on, fits what changes by little as if it did so by
    any amount, and goes as far there as the times come nearer."""
    costs = dict(start)
    error = squares(times_of, measured, costs)
    for _ in range(steps):
        rows = [rates_of_change(time_of, costs) for time_of in times_of]
        aim = dict(zip(costs, fit(rows, measured)))
        for share in (1, 1 / 2, 1 / 4, 1 / 8):
            next_costs = {part: cost + share * (aim[part] - cost)
                          for part, cost in costs.items()}
            next_error = squares(times_of, measured, next_costs)
            if next_error < error:
                break
        else:
            return costs
        costs, error = next_costs, next_error
    return costs


class Simulator:

    def __init__(self, tutti, folder):
        self.tutti = tutti
        self.file = pathlib.Path(folder) / "topology.json"

    def simulate(self, algorithm, layout, num_bytes, cluster):
        self.file.write_text(json.dumps(cluster))
        return json_of([self.tutti, "simulate", algorithm, "--layout", layout,
                        "--bytes", num_bytes, "--topology", self.file,
                        "--json"])

    def time_of(self, algorithm, layout, num_bytes):
        """A function of costs, in microseconds."""
        point = (algorithm, layout, num_bytes)
        message = self.simulate(*point, calibrated(GUESS, False))["chunk_bytes"]
        is_large = message > largest_small_message(layout)
        return lambda costs: self.simulate(
            *point, calibrated(costs, is_large))["time_us"]


def compare(simulator, layout, measured):
    """Prints a table; returns the ratios of simulated to measured times of the
    points that are predicted."""
    sizes = sorted({num_bytes for _, num_bytes in measured})
    known = {point: time for point, time in measured.items()
             if point[1] in sizes[::2]}
    times_of = {(algorithm, num_bytes):
                simulator.time_of(algorithm, layout, num_bytes)
                for algorithm, num_bytes in measured}
    costs = calibrate([times_of[point] for point in known],
                      list(known.values()), guess(layout))
    where = "devices of one process" if layout.startswith("1x") else (
        "processes on loopback")
    print(f"\n{layout}: {where}; " + ", ".join(
        f"{part} {cost:.3g} us" +
        ("" if part.endswith(("latency", "message")) else "/KiB")
        for part, cost in costs.items()))
    ratios = {point: times_of[point](costs) / time
              for point, time in measured.items()}
    print_table(["bytes", *ALGORITHMS], [
        [text_of(size) + (" *" if size in sizes[::2] else "  "),
         *(f"{ratios[name, size]:.2f}" for name in ALGORITHMS)]
        for size in sizes])
    return [ratio for point, ratio in ratios.items() if point not in known]


def num_near(ratios):
    return sum(1 - AGREEMENT <= ratio <= 1 + AGREEMENT for ratio in ratios)


def main(argv):
    args = parse(argv, "simulated", __doc__, LAYOUTS,
                 "one task: devices of one process; several: on loopback",
                 rounds=5)
    begin("simulated / measured times of all_reduce")
    near = {}
    with tempfile.TemporaryDirectory() as folder:
        simulator = Simulator(args.tutti, folder)
        for layout in args.layouts:
            measured = fastest_times(args.tutti, layout, "all_reduce",
                                     ALGORITHMS, SIZES, args.rounds)
            ratios = compare(simulator, layout, measured)
            near[layout] = (num_near(ratios), len(ratios))
    print("\naims")
    for layout, (count, total) in near.items():
        print_aim(count == total,
                  f"{layout}: within {AGREEMENT:.0%} of the measured time for "
                  f"{count} of {total} predicted points")


if __name__ == "__main__":
    main(sys.argv[1:])
