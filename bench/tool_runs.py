"""What the scripts that measure with the tool have in common."""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys

from comparison import machine

TIMES = """Measured times are `tutti perf`'s p50, in which the algorithms take turns, of
the round in which it was smallest: what else the machine does only adds to it.
"""


def layouts_of(text):
    layouts = text.split(",")
    for layout in layouts:
        if not re.fullmatch(r"[1-9][0-9]*x[1-9][0-9]*", layout):
            raise argparse.ArgumentTypeError(
                f'"{layout}" is no layout such as 2x4')
    return layouts


def parse(argv, name, doc, layouts, layouts_help, rounds):
    """The arguments of `./dev bench NAME`."""
    parser = argparse.ArgumentParser(
        prog=f"./dev bench {name}", description=doc, epilog=TIMES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=rounds, metavar="N",
                        help=f"runs of `tutti perf` [default: {rounds}]")
    parser.add_argument("--layouts", type=layouts_of, default=layouts,
                        metavar="TxD,...",
                        help=f"{layouts_help} [default: {','.join(layouts)}]")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error("wanted at least one round")
    return args


def begin(title):
    sys.stdout.reconfigure(line_buffering=True)
    print(f"{title}; {machine()}; {datetime.date.today()}; "
          f"load {os.getloadavg()[0]:.1f}")


def text_from(command):
    """What the tool prints. Where it fails it has said why, and all ends."""
    words = list(map(str, command))
    result = subprocess.run(words, check=False, stdout=subprocess.PIPE,
                            text=True)
    if result.returncode != 0:
        sys.exit(f"this failed: {' '.join(words)}")
    return result.stdout


def json_of(command):
    return json.loads(text_from(command))


def fastest_times(tutti, layout, collective, algorithms, sizes, rounds):
    """{(algorithm, bytes): microseconds}, of sizes (least, most, factor)."""
    tasks, devices = layout.split("x")
    least, most, factor = sizes
    perf = ["perf", collective, "--json", "--algorithm", ",".join(algorithms),
            "--min-bytes", least, "--max-bytes", most, "--factor", factor]
    if tasks == "1":
        command = [tutti, *perf, "--devices", devices]
    else:
        command = [tutti, "launch", "--tasks", tasks, "--devices-per-task",
                   devices, "--", *perf]
    times = {}
    for _ in range(rounds):
        for row in json_of(command):
            point = row["algorithm"], row["bytes"]
            times[point] = min(row["p50_us"], times.get(point, row["p50_us"]))
    return times
