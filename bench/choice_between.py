#!/usr/bin/env python3
"""Says how good the choice of algorithms is between processes on loopback.

For each collective, layout and size all algorithms that can serve are measured
by `tutti perf`, in turn, by as many processes as the layout has tasks; then the
one that the cost model chooses (`tutti explain`) is compared with the fastest.
Between processes no rules are made: `tutti tune` measures within one.
"""

import sys

from comparison import MIB, print_aim, print_table, text_of
from tool_runs import begin, fastest_times, json_of, parse

COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast",
               "all_to_all"]
LAYOUTS = ["2x1", "4x1", "2x2", "2x4"]
SIZES = 64, 8 * MIB, 8  # From, to, and the factor between them.
NEAR = 1.10  # Times as long as the fastest.
AIM = 0.90   # Of the points.


def explain(tutti, collective, layout, num_bytes):
    """(the algorithms that can serve, the one that is chosen)"""
    answer = json_of([tutti, "explain", collective, "--layout", layout,
                      "--bytes", num_bytes, "--json"])
    names = [candidate["name"] for candidate in answer["candidates"]
             if candidate["predicted_us"] is not None]
    return names, answer["chosen"]


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
        names, _ = explain(tutti, collective, layout, SIZES[0])
        times = fastest_times(tutti, layout, collective, names, SIZES, rounds)
        for num_bytes in sorted({num_bytes for _, num_bytes in times}):
            of_size = {name: time for (name, size), time in times.items()
                       if size == num_bytes}
            _, chosen = explain(tutti, collective, layout, num_bytes)
            fastest, ratio = judge(of_size, chosen)
            ratios.append(ratio)
            rows.append([collective, text_of(num_bytes), fastest,
                         f"{of_size[fastest]:.0f}", chosen, f"{ratio:.2f}"])
    print(f"\n{layout}: {layout.split('x')[0]} processes on loopback")
    print_table(["collective", "bytes", "fastest", "[us]", "chosen", "ratio"],
                rows)
    return ratios


def main(argv):
    args = parse(argv, "choice_between", __doc__, LAYOUTS,
                 "processes x devices of each", rounds=2)
    begin("the choice between processes")
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
