#!/usr/bin/env python3
"""Says how good the choice of algorithms is between processes on loopback.

For each collective, layout and size all algorithms that can serve are measured
by `tutti perf`, in turn, by as many processes as the layout has tasks; then the
one that the cost model chooses (`tutti explain`) is compared with the fastest.
Times are p50 of the round in which it was smallest: what else the machine does
only adds to it. Between processes no rules are made: `tutti tune` measures
within one.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys

from comparison import MIB, machine, print_aim, print_table, text_of

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast",
               "all_to_all"]
LAYOUTS = ["2x1", "4x1", "2x2", "2x4"]
MIN_BYTES, MAX_BYTES, FACTOR = 64, 8 * MIB, 8
NEAR = 1.10  # Times as long as the fastest.
AIM = 0.90   # Of the points.


def json_of(command):
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE,
                            text=True)
    return json.loads(result.stdout)


def explain(tutti, collective, layout, num_bytes):
    """(the algorithms that can serve, the one that is chosen)"""
    answer = json_of([tutti, "explain", collective, "--layout", layout,
                      "--bytes", str(num_bytes), "--json"])
    names = [candidate["name"] for candidate in answer["candidates"]
             if candidate["predicted_us"] is not None]
    return names, answer["chosen"]


def measure(tutti, collective, layout, names, rounds):
    """{bytes: {algorithm: microseconds}}"""
    tasks, devices = layout.split("x")
    command = [tutti, "launch", "--tasks", tasks, "--devices-per-task", devices,
               "--", "perf", collective, "--json", "--algorithm",
               ",".join(names), "--min-bytes", str(MIN_BYTES), "--max-bytes",
               str(MAX_BYTES), "--factor", str(FACTOR)]
    times = {}
    for _ in range(rounds):
        for row in json_of(command):
            of_size = times.setdefault(row["bytes"], {})
            name, time = row["algorithm"], row["p50_us"]
            of_size[name] = min(time, of_size.get(name, time))
    return times


def judge(times, chosen):
    """(the fastest, how many times as long the chosen one takes)"""
    fastest = min(times, key=times.get)
    return fastest, times[chosen] / times[fastest]


def num_near(ratios):
    return sum(ratio <= NEAR for ratio in ratios)


def compare(tutti, layout, rounds):
    """Prints a table; returns how many times as long each choice takes."""
    rows, ratios = [], []
    for collective in COLLECTIVES:
        names, _ = explain(tutti, collective, layout, MIN_BYTES)
        times = measure(tutti, collective, layout, names, rounds)
        for num_bytes, of_size in sorted(times.items()):
            _, chosen = explain(tutti, collective, layout, num_bytes)
            fastest, ratio = judge(of_size, chosen)
            ratios.append(ratio)
            rows.append([collective, text_of(num_bytes), fastest,
                         f"{of_size[fastest]:.0f}", chosen, f"{ratio:.2f}"])
    print(f"\n{layout}: {layout.split('x')[0]} processes on loopback")
    print_table(["collective", "bytes", "fastest", "[us]", "chosen", "ratio"],
                rows)
    return ratios


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="./dev bench choice_between", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=2, metavar="N",
                        help="runs of `tutti perf` [default: 2]")
    parser.add_argument("--layouts", type=lambda text: text.split(","),
                        default=LAYOUTS, metavar="TxD,...",
                        help="processes x devices of each [default: "
                        f"{','.join(LAYOUTS)}]")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error("wanted at least one round")
    return args


def main(argv):
    args = parse(argv)
    sys.stdout.reconfigure(line_buffering=True)
    print(f"the choice between processes; {machine()}; "
          f"{datetime.date.today()}; load {os.getloadavg()[0]:.1f}")
    ratios = {layout: compare(args.tutti, layout, args.rounds)
              for layout in args.layouts}
    print("\naims")
    for layout, of_layout in ratios.items():
        near = num_near(of_layout)
        print_aim(near >= AIM * len(of_layout),
                  f"{layout}: within {NEAR - 1:.0%} of the fastest for {near} "
                  f"of {len(of_layout)} points")


if __name__ == "__main__":
    main(sys.argv[1:])
