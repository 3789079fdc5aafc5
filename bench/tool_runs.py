"""What the scripts that measure with the tool have in common."""

import argparse
import datetime
import json
import os
import subprocess
import sys

from comparison import machine

TIMES = """Measured times are `tutti perf`'s p50, in which the algorithms take turns, of
the round in which it was smallest: what else the machine does only adds to it.
"""


def parse(argv, name, doc, layouts, layouts_help, rounds):
    """The arguments of `./dev bench NAME`."""
    parser = argparse.ArgumentParser(
        prog=f"./dev bench {name}", description=doc, epilog=TIMES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=rounds, metavar="N",
                        help=f"runs of `tutti perf` [default: {rounds}]")
    parser.add_argument("--layouts", type=lambda text: text.split(","),
                        default=layouts, metavar="TxD,...",
                        help=f"{layouts_help} [default: {','.join(layouts)}]")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error("wanted at least one round")
    return args


def begin(title):
    sys.stdout.reconfigure(line_buffering=True)
    print(f"{title}; {machine()}; {datetime.date.today()}; "
          f"load {os.getloadavg()[0]:.1f}")


def json_of(command):
    result = subprocess.run(list(map(str, command)), check=True,
                            stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout)


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
