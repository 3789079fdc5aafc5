#!/usr/bin/env python3
"""Says how good the choice of algorithms is between processes on loopback.

For each collective, layout and size all algorithms that can serve are measured
by `tutti perf`, in turn, by as many processes as the layout has tasks; then the
one that the cost model chooses (`tutti explain`) is compared with the fastest.
What rules choose is not scored here: `tutti launch --tasks N -- tune` makes
some, and prints its own score of them and of the model.

Several algorithms are one and the same among few ranks: then the choice among
them has no meaning, and what their times differ by is noise. So a point counts
as near the fastest if the chosen algorithm takes at most 1.1 times as long as
the fastest one, or runs the same steps as that one (marked =): on every rank
the same sends, receives, reductions and copies of the same chunks, waiting for
the same (`tutti schedule`), whatever the tags, the scratch that is used, the
order of the operands, and the lanes, but for reductions right after a receive.
"""

import functools
import re
import sys
from typing import NamedTuple

from comparison import MIB, print_aim, print_table, text_of
from tool_runs import begin, fastest_times, json_of, parse, text_from

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


def without_names(step):
    """A step without its tag, the number of its scratch and the order of its
    operands."""
    step = re.sub(r", tag \d+", "", step)
    step = re.sub(r"(scratch\[\d+\])\.\d+", r"\1", step)
    reduction = re.fullmatch(r"(\S+ = )(\S+) \(\+\) ([^ ,]+)(.*)", step)
    if reduction is None:
        return step
    into, left, right, rest = reduction.groups()
    return f"{into}{min(left, right)} (+) {max(left, right)}{rest}"


def steps_of_rank(lines):
    """What one rank does, of the lines "LANE.STEP  what, after LANE.STEP": each
    step, with those that it waits for. A reduction right after a receive in its
    lane is one with it (docs/architecture.md), and another step than one that
    comes later."""
    steps, waits = {}, {}
    for line in lines:
        place, text = line.split(maxsplit=1)
        text, _, after = text.partition(", after ")
        lane, number = place.split(".")
        before = f"{lane}.{int(number) - 1}"
        steps[place] = without_names(text)
        if "(+)" in text and steps.get(before, "").startswith("recv"):
            steps[place] += ", at once"
        waits[place] = {before, after}
    return sorted((step, sorted(steps[other] for other in waits[place]
                                if other in steps))
                  for place, step in steps.items())


def steps_of(text):
    """What all ranks do, of a text of `tutti schedule`: equal where they do the
    same."""
    title, *ranks = text.strip().split("\n\n")
    num_chunks = title.rpartition("; ")[2]
    return num_chunks, [steps_of_rank(rank.splitlines()[1:]) for rank in ranks]


@functools.cache
def schedules(tutti):
    """Names of the algorithms that have steps."""
    return {algorithm["name"]
            for algorithm in json_of([tutti, "info", "--json"])["algorithms"]
            if algorithm["is_schedule"]}


def schedule(tutti, collective, layout, num_bytes, algorithm):
    """A text of `tutti schedule`; None for one that has no steps."""
    if algorithm not in schedules(tutti):
        return None
    return text_from([tutti, "schedule", algorithm, "--collective", collective,
                      "--layout", layout, "--bytes", num_bytes])


class Point(NamedTuple):
    fastest: str
    ratio: float  # How many times as long the chosen one takes.
    is_same: bool  # The chosen one runs the steps of the fastest.

    def is_near(self):
        return self.ratio <= NEAR or self.is_same

    def text(self):
        return f"{self.ratio:.2f} " + ("=" if self.is_same else " ")


def judge(times, chosen, schedule_of):
    """A Point; `schedule_of(algorithm)` is as schedule()."""
    fastest = min(times, key=times.get)
    is_same = chosen == fastest
    if not is_same:
        texts = schedule_of(chosen), schedule_of(fastest)
        is_same = None not in texts and steps_of(texts[0]) == steps_of(texts[1])
    return Point(fastest, times[chosen] / times[fastest], is_same)


def verdict(layout, points):
    """(whether the aim is met, in words)"""
    near = sum(point.is_near() for point in points)
    by_steps = sum(point.is_near() and point.ratio > NEAR for point in points)
    return near >= AIM * len(points), (
        f"{layout}: within {NEAR - 1:.0%} of the fastest for "
        f"{near - by_steps} of {len(points)} points, the same steps as the "
        f"fastest for {by_steps} more: {near}")


def compare(tutti, layout, rounds):
    """Prints a table; returns its points."""
    rows, points = [], []
    for collective in COLLECTIVES:
        names, _ = explain(tutti, collective, layout, SIZES[0])
        times = fastest_times(tutti, layout, collective, names, SIZES, rounds)
        for num_bytes in sorted({num_bytes for _, num_bytes in times}):
            of_size = {name: time for (name, size), time in times.items()
                       if size == num_bytes}
            _, chosen = explain(tutti, collective, layout, num_bytes)
            point = judge(of_size, chosen, functools.partial(
                schedule, tutti, collective, layout, num_bytes))
            points.append(point)
            rows.append([collective, text_of(num_bytes), point.fastest,
                         f"{of_size[point.fastest]:.0f}", chosen,
                         point.text()])
    print(f"\n{layout}: {layout.split('x')[0]} processes on loopback")
    print_table(["collective", "bytes", "fastest", "[us]", "chosen", "ratio"],
                rows)
    return points


def main(argv):
    args = parse(argv, "choice_between", __doc__, LAYOUTS,
                 "processes x devices of each", rounds=2)
    begin("the choice between processes")
    points = {layout: compare(args.tutti, layout, args.rounds)
              for layout in args.layouts}
    print("\naims")
    for layout, of_layout in points.items():
        print_aim(*verdict(layout, of_layout))


if __name__ == "__main__":
    main(sys.argv[1:])
