#!/usr/bin/env python3
"""Compares all-reduces between two processes on loopback, in one run.

Tutti over gRPC, by each way that bytes can go; Gloo over TCP and TensorFlow's
collectives over gRPC, where they are installed (`./dev setup --peers`); a plain
TCP stream as the yardstick. All take turns, for each size in each round, since
machines change their speed within minutes: look at ratios.

The time of a call is that of the slower process, calls follow one another in
the same buffers, which are float32; figures are medians over rounds of the
medians of calls, ratios medians over rounds of the ratio in a round.
"""

import argparse
import contextlib
import datetime
import os
import pathlib
import statistics
import sys
import tempfile

from comparison import (MIB, calls_of, machine, median_ratio, print_aim,
                        print_table, take_turns, text_of)
from workers import WorkerError, Workers, free_addresses

HERE = pathlib.Path(__file__).parent
SIZES = [4, 64, 1 << 10, 16 << 10, 64 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB,
         64 * MIB]
STREAM_SIZES = [4 * MIB, 16 * MIB, 64 * MIB]

MEMORY = "Tutti"
CHAINED = "Tutti chained"
UNIX = "Tutti Unix"
TCP = "Tutti TCP"
GLOO = ["Gloo ring", "Gloo bcube"]
TENSORFLOW, TENSORFLOW_CHAINED = "TF", "TF chained"

# What we want to reach.
GLOO_AIM_BYTES, GLOO_AIM = 16 * MIB, 1
TENSORFLOW_AIM = 1 / 3
PAYLOAD_AIM = 0.6


class Contender:
    """A name in the tables: what a pair of processes does when asked so."""

    def __init__(self, pair, collective="all_reduce"):
        self.pair = pair
        self.collective = collective

    def measure(self, num_bytes):
        warmup, calls = calls_of(num_bytes)
        if self.collective == "chained":
            warmup, calls = 0, max(1, calls // 20)
        return self.pair.median(self.collective, num_bytes, warmup, calls)


class Comparison:

    def __init__(self, args, stack):
        self.args = args
        self.stack = stack
        self.contenders = {}  # By name, of all_reduce.
        self.versions = {}
        self.left_out = []
        self.tcp = self.start_tcp()
        self.tutti = {MEMORY: self.start_tutti("memory"),
                      UNIX: self.start_tutti("unix"),
                      TCP: self.start_tutti("tcp")}
        for name, pair in self.tutti.items():
            self.add(name, pair)
        self.add(CHAINED, self.tutti[MEMORY], "chained")
        self.start_gloo()
        self.start_tensorflow()
        self.times = {}  # By size, by name: one for each round.

    def add(self, name, pair, collective="all_reduce"):
        self.contenders[name] = Contender(pair, collective)
        self.versions[name] = pair.version

    def start(self, *commands, environment=None):
        pair = Workers(commands, environment)
        self.stack.callback(pair.close)
        return pair

    def start_tcp(self):
        address, = free_addresses(1)
        return self.start(*([sys.executable, HERE / "tcp_worker.py", address,
                             str(rank)] for rank in range(2)))

    def start_tutti(self, way):
        addresses = ",".join(free_addresses(2))
        return self.start(*([self.args.tutti, way, addresses, str(task)]
                            for task in range(2)))

    def start_gloo(self):
        if not self.args.gloo:
            self.left_out.append("Gloo: libgloo-dev is not installed")
            return
        for name in GLOO:
            folder = self.stack.enter_context(tempfile.TemporaryDirectory())
            pair = self.start(*([self.args.gloo, name.split()[1], folder,
                                 str(rank), "2"] for rank in range(2)))
            self.add(name, pair)

    def start_tensorflow(self):
        folder = self.args.tensorflow
        if not (pathlib.Path(folder) / "tensorflow").is_dir():
            self.left_out.append("TensorFlow: not in " + folder)
            return
        addresses = ",".join(free_addresses(2))
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"}
        try:
            pair = self.start(*(
                [sys.executable, HERE / "tensorflow_worker.py", folder,
                 addresses, str(task)] for task in range(2)),
                environment=environment)
        except WorkerError as error:
            self.left_out.append(f"TensorFlow: {error}")
            return
        self.add(TENSORFLOW, pair)
        self.add(TENSORFLOW_CHAINED, pair, "chained")

    def probe(self):
        ping = self.tcp.median("ping", 4, 100, 1000)
        stream = 16 * MIB / self.tcp.median("stream", 16 * MIB, 2, 20)
        load = os.getloadavg()[0]
        return (f"{ping * 1e6:.0f} us to and fro, {stream / 1e9:.2f} GB/s one "
                f"way, load {load:.1f}")

    def compare(self):
        self.times = take_turns(
            {name: one.measure for name, one in self.contenders.items()},
            self.args.sizes, self.args.rounds)
        self.print_times()

    def best(self, names, size):
        """Times of the one that is fastest at the size; None if there is
        none."""
        there = [self.times[size][name] for name in names
                 if name in self.contenders]
        return min(there, key=statistics.median, default=None)

    def ratio(self, size, name, others):
        """The time of `name` to that of the fastest of the others; None."""
        times = self.best(others, size)
        if times is None:
            return None
        return median_ratio(self.times[size][name], times)

    def print_times(self):
        print("\nall_reduce, sum, microseconds")
        print_table(["bytes", *self.contenders],
                    [[text_of(size),
                      *(f"{statistics.median(times) * 1e6:.0f}"
                        for times in by_name.values())]
                     for size, by_name in self.times.items()])
        print("\nratios of times; to Gloo's faster algorithm")
        ratios = {
            label: (name, others) for label, name, others in [
                ("Unix / TCP", UNIX, [TCP]),
                ("Tutti / Gloo", MEMORY, GLOO),
                ("TCP / Gloo", TCP, GLOO),
                ("Tutti / TF", MEMORY, [TENSORFLOW]),
                ("chained / chained", CHAINED, [TENSORFLOW_CHAINED]),
                ("Tutti / TF chained", MEMORY, [TENSORFLOW_CHAINED])]
            if self.contenders.keys() & set(others)}
        print_table(["bytes", *ratios],
                    [[text_of(size), *(f"{self.ratio(size, *pair):.2f}"
                                       for pair in ratios.values())]
                     for size in self.times])

    def compare_payload(self):
        """{size: share of a TCP stream, for each way}"""
        def turn(pair, collective):
            return lambda size: pair.median(collective, size, *calls_of(size))
        times = take_turns(
            {"TCP stream": turn(self.tcp, "stream"),
             **{name: turn(pair, "broadcast")
                for name, pair in self.tutti.items()}},
            STREAM_SIZES, self.args.rounds)
        shares = {
            size: tuple(median_ratio(by_name["TCP stream"], by_name[name])
                        for name in self.tutti)
            for size, by_name in times.items()}
        print("\nbroadcast from one process to the other, GB/s of payload; then "
              "shares of the TCP stream")
        rows = [[text_of(size),
                 *(f"{size / statistics.median(of_rounds) / 1e9:.2f}"
                   for of_rounds in times[size].values()),
                 *(f"{share:.0%}" for share in shares[size])]
                for size in times]
        print_table(["bytes", "TCP stream", *self.tutti,
                     *(f"{name} / TCP" for name in self.tutti)], rows)
        return shares

    def print_aims(self, shares):
        print("\naims")
        self.print_tensorflow_aim(MEMORY, TENSORFLOW, "one by one")
        self.print_tensorflow_aim(CHAINED, TENSORFLOW_CHAINED, "chained")
        if GLOO_AIM_BYTES in self.times and GLOO[0] in self.contenders:
            for name in self.tutti:
                ratio = self.ratio(GLOO_AIM_BYTES, name, GLOO)
                print_aim(ratio <= GLOO_AIM,
                          f"at most Gloo's time at {text_of(GLOO_AIM_BYTES)}: "
                          f"{ratio:.2f} of it ({name})")
        for i, name in enumerate(self.tutti):
            worst = min(shares, key=lambda size: shares[size][i])
            print_aim(shares[worst][i] >= PAYLOAD_AIM,
                      f"at least {PAYLOAD_AIM:.0%} of a TCP stream from 4 MiB: "
                      f"{shares[worst][i]:.0%} at {text_of(worst)} ({name})")

    def print_tensorflow_aim(self, name, other, how):
        if other not in self.contenders:
            return
        ratios = {size: self.ratio(size, name, [other]) for size in self.times}
        worst = max(ratios, key=ratios.get)
        print_aim(ratios[worst] <= TENSORFLOW_AIM,
                  f"at most 1/3 of TensorFlow's time at every size, {how}: "
                  f"{ratios[worst]:.3f} at worst, at {text_of(worst)}")


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="./dev bench processes", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--gloo", default="", help=argparse.SUPPRESS)
    parser.add_argument("--tensorflow", default="", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, metavar="N",
                        help="turns of each at each size [default: 5]")
    parser.add_argument(
        "--sizes", metavar="BYTES,...", default=SIZES,
        type=lambda text: [int(word) for word in text.split(",")],
        help="of the all-reduces [default: 4 to 67108864]")
    args = parser.parse_args(argv)
    if args.rounds < 1 or any(size < 4 or size % 4 for size in args.sizes):
        parser.error("wanted at least one round, and sizes that are multiples "
                     "of 4 bytes")
    return args


def main(argv):
    args = parse(argv)
    sys.stdout.reconfigure(line_buffering=True)
    with contextlib.ExitStack() as stack:
        comparison = Comparison(args, stack)
        print(f"two processes on loopback; {machine()}; "
              f"{datetime.date.today()}; medians of {args.rounds} rounds")
        settings = {
            MEMORY: "default settings: a Unix socket, and large payloads are "
                    "read from the memory of the other process",
            UNIX: "by the Unix socket alone",
            TCP: "as between hosts",
            CHAINED: "20 calls, each begun in the callback of the one before",
            TENSORFLOW: "MultiWorkerMirroredStrategy, gRPC, hint ring",
            TENSORFLOW_CHAINED: "20 collectives in one call",
        }
        for name, version in comparison.versions.items():
            print(f"  {name}: {version}; "
                  f"{settings.get(name, 'TCP, one context')}")
        print("probe before:", comparison.probe())
        comparison.compare()
        shares = comparison.compare_payload()
        comparison.print_aims(shares)
        print("\nprobe after:", comparison.probe())
        for what in comparison.left_out:
            print("LEFT OUT:", what)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except WorkerError as failure:
        sys.exit(f"a process failed: {failure}")
