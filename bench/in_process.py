#!/usr/bin/env python3
"""Compares all-reduces among the devices of one process, in one run.

Tutti, in place and out of it; beside it what memory allows, measured in the same
buffers of the same process; and what others do: Open MPI, Intel MPI and Gloo
with a process for each device, TensorFlow's collectives with virtual devices of
one process, where they are installed (`./dev setup --peers`). All take turns,
for each size in each round, since machines change their speed within minutes:
look at ratios.

The time of a call is that of the slowest member, calls follow one another in the
same buffers, which are float32; figures are medians over rounds of the medians
of calls, ratios medians over rounds of the ratio in a round. Of MPI and Gloo,
whose processes wait for processors, it is the mean where that is less.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import statistics
import sys
import tempfile

import in_process_aims as aims
from comparison import (MIB, calls_of, machine, print_aim, print_table,
                        take_turns, text_of)
from workers import LaunchedWorkers, WorkerError, Workers

HERE = pathlib.Path(__file__).parent
DEVICES = [2, 4, 8]
SIZES = [4, 64, 1 << 10, 16 << 10, 64 << 10, 256 << 10, MIB, 4 * MIB, 16 * MIB,
         64 * MIB]
MOST_CALLS = 300  # A line of so many times comes in one piece.
TURN_SECONDS = 0.2  # Of those who are slow.
MOST_TWO_THREADS = 1 << 10
LEAST_FLOOR = MIB

# What Tutti's process calls it, and the sizes for which it is asked.
CASES = {
    aims.OUT_OF_PLACE: ("out_of_place", lambda size: True),
    aims.IN_PLACE: ("in_place", lambda size: True),
    aims.TWO_THREADS: ("two_threads", lambda size: size <= MOST_TWO_THREADS),
    aims.HANDED_OVER: ("handed_over", lambda size: size <= MOST_TWO_THREADS),
    aims.PREPARED: ("prepared", lambda size: size <= MOST_TWO_THREADS),
    aims.SHARED: ("shared_output", lambda size: True),
    aims.COPY: ("copy", lambda size: size >= LEAST_FLOOR),
    aims.IN_PLACE_FLOOR: ("in_place_floor", lambda size: size >= LEAST_FLOOR),
    aims.SHARED_FLOOR: ("shared_floor", lambda size: size >= LEAST_FLOOR),
    aims.CACHE_COPY: ("cache_copy", lambda size: size == MIB),
}

INTEL_SETTINGS = {"I_MPI_FABRICS": "shm", "I_MPI_THREAD_YIELD": "2",
                  "I_MPI_PIN": "1"}
INTEL_ALGORITHMS = {"Intel MPI": None, "Intel MPI 13": "13"}
SETTINGS = {
    "Tutti": "default settings, calls from one thread unless said otherwise",
    "Open MPI": "a process for each device, oversubscribed",
    "Intel MPI": " ".join(f"{name}={value}" for name, value
                          in INTEL_SETTINGS.items()),
    "Intel MPI 13": "also I_MPI_ADJUST_ALLREDUCE=13",
    "Gloo ring": "a process for each device, TCP",
    "Gloo bcube": "a process for each device, TCP",
    "TF": "virtual CPU devices of one process, hint ring",
    "TF chained": "20 collectives in one call",
}


class Peers:
    """Processes that do what Tutti does, among so many members each."""

    def __init__(self, args, stack, devices):
        self.args = args
        self.stack = stack
        self.devices = devices
        self.measures = {}  # By name, functions of sizes.
        self.versions = {}
        self.left_out = []
        for name, start in [("Open MPI", self.start_open_mpi),
                            ("Intel MPI", self.start_intel_mpi),
                            ("Gloo", self.start_gloo),
                            ("TensorFlow", self.start_tensorflow)]:
            try:
                start()
            except (WorkerError, OSError) as error:
                self.left_out.append(f"{name}, {devices} members: {error}")

    def add(self, name, workers, collective="all_reduce"):
        self.stack.callback(workers.close)
        self.versions[name] = workers.version

        last = {}  # By size. The first turn does not count, and is short.

        def measure(size):
            warmup, calls = calls_of(size, MOST_CALLS)
            wanted = int(TURN_SECONDS / last.get(size, TURN_SECONDS))
            calls = max(3, min(calls, wanted))
            if collective == "chained":
                warmup, calls = 0, max(1, calls // 20)
            last[size] = workers.median_or_mean(collective, size, warmup,
                                                calls)
            return last[size]

        self.measures[name] = measure

    def start_open_mpi(self):
        if not self.args.open_mpi:
            raise WorkerError("libopenmpi-dev and openmpi-bin are not installed")
        command = ["mpirun", "--oversubscribe", "-n", str(self.devices),
                   self.args.open_mpi]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        self.add("Open MPI", LaunchedWorkers(command, self.devices,
                                             environment))

    def start_intel_mpi(self):
        folder = pathlib.Path(self.args.intel_mpi)
        worker = folder / "mpi_worker"
        if not worker.is_file():
            raise WorkerError(f"not in {folder}")
        for name, algorithm in INTEL_ALGORITHMS.items():
            environment = {**os.environ, **INTEL_SETTINGS,
                           "I_MPI_ROOT": str(folder)}
            if algorithm:
                environment["I_MPI_ADJUST_ALLREDUCE"] = algorithm
            command = [folder / "bin" / "mpiexec.hydra", "-n",
                       str(self.devices), worker]
            self.add(name, LaunchedWorkers(command, self.devices, environment))

    def start_gloo(self):
        if not self.args.gloo:
            raise WorkerError("libgloo-dev is not installed")
        for name in ["Gloo ring", "Gloo bcube"]:
            folder = self.stack.enter_context(tempfile.TemporaryDirectory())
            self.add(name, Workers([
                [self.args.gloo, name.split()[1], folder, str(rank),
                 str(self.devices)] for rank in range(self.devices)]))

    def start_tensorflow(self):
        folder = pathlib.Path(self.args.tensorflow)
        if not (folder / "tensorflow").is_dir():
            raise WorkerError(f"not in {folder}")
        workers = Workers([[sys.executable, HERE / "tensorflow_devices_worker.py",
                            folder, str(self.devices)]])
        self.add("TF", workers)
        self.add("TF chained", workers, "chained")


class Comparison:

    def __init__(self, args, stack):
        self.args = args
        self.tutti = Workers([[args.tutti]])
        stack.callback(self.tutti.close)
        self.peers = {devices: Peers(args, stack, devices)
                      for devices in (2, 8) if devices in args.devices
                      and not args.no_peers}
        self.times = {}  # By devices, by size, by name: one for each round.
        self.of_dtypes = {}
        self.of_many = {}
        self.verdicts = []

    def versions(self):
        return {"Tutti": self.tutti.version,
                **{name: version for peers in self.peers.values()
                   for name, version in peers.versions.items()}}

    def left_out(self):
        reasons = []
        if self.args.no_peers:
            reasons.append("all peers: --no-peers")
        return reasons + [reason for peers in self.peers.values()
                          for reason in peers.left_out]

    def ask_tutti(self, case, devices, size, dtype="float32"):
        warmup, calls = calls_of(size * devices // 2, MOST_CALLS)
        return self.tutti.median(f"{case} {devices} {dtype}", size, warmup,
                                 calls)

    def measure(self):
        for devices in self.args.devices:
            self.times[devices] = {}
            for size in self.args.sizes:
                contenders = {
                    name: lambda size, case=case: self.ask_tutti(
                        case, devices, size)
                    for name, (case, wants) in CASES.items() if wants(size)}
                if devices in self.peers:
                    contenders.update(self.peers[devices].measures)
                self.times[devices].update(
                    take_turns(contenders, [size], self.args.rounds))
            self.print_times(devices)

    def print_times(self, devices):
        by_size = self.times[devices]
        names = [name for name in dict.fromkeys(
            name for times in by_size.values() for name in times)
            if name != aims.HANDED_OVER]
        print(f"\n{devices} members: all_reduce, float32, sum, microseconds")
        print_table(["bytes", *names], [
            [text_of(size),
             *(f"{statistics.median(times[name]) * 1e6:.1f}"
               if name in times else "" for name in names)]
            for size, times in by_size.items()])

    def print_ratios(self):
        results = aims.Results(self.times)
        for devices in self.times:
            columns = {
                "copy / out of place": ([aims.COPY], aims.OUT_OF_PLACE),
                "floor / in place": ([aims.IN_PLACE_FLOOR], aims.IN_PLACE),
                "cache copy / in place": ([aims.CACHE_COPY], aims.IN_PLACE),
                **{f"{name} / Tutti": (others, aims.OUT_OF_PLACE)
                   for name, others in [
                       ("Open MPI", ["Open MPI"]),
                       ("Gloo", aims.PACKAGED[1:]),
                       ("Intel MPI", aims.STRONGEST[:2]),
                       ("TF", aims.STRONGEST[2:])]}}
            rows = {size: [results.ratio(devices, size, *pair)
                           for pair in columns.values()]
                    for size in self.times[devices]}
            print(f"\n{devices} members: ratios of times; of a peer's fastest "
                  "setting")
            print_table(["bytes", *columns], [
                [text_of(size), *("" if ratio is None else f"{ratio:.2f}"
                                  for ratio in row)]
                for size, row in rows.items()])

    def measure_dtypes(self):
        sizes = [size for size in self.args.sizes
                 if size in (MIB, 16 * MIB, 64 * MIB)]
        dtypes = ["float32", "float16", "bfloat16"]
        by_size = {}
        for size in sizes:
            by_size.update(take_turns(
                {dtype: lambda size, dtype=dtype: self.ask_tutti(
                    "out_of_place", 8, size, dtype) for dtype in dtypes},
                [size], self.args.rounds))
        self.of_dtypes = {
            dtype: {size: by_size[size][dtype] for size in sizes}
            for dtype in dtypes} if sizes else {}

    def measure_many(self):
        cases = {aims.ONE: ("out_of_place", 4 * MIB),
                 aims.TOGETHER: ("many_together", 4 << 10),
                 aims.MANY: ("many", 4 << 10),
                 aims.MANY_BY_DEVICE: ("many_by_device", 4 << 10)}
        self.of_many = take_turns(
            {name: lambda _, case=case, size=size: self.tutti.median(
                f"{case} 8 float32", size, 2, 10)
             for name, (case, size) in cases.items()},
            [4 * MIB], self.args.rounds)[4 * MIB]

    def judge(self):
        results = aims.Results(self.times)
        self.verdicts = [*aims.limits(results), *aims.peers(results),
                         *aims.halves(self.of_dtypes),
                         *(aims.many(self.of_many) if self.of_many else [])]
        print("\naims")
        for verdict in self.verdicts:
            print_aim(verdict.is_met, str(verdict))

    def as_json(self, about):
        return {**about, "versions": self.versions(),
                "settings": {name: SETTINGS[name] for name in self.versions()},
                "left_out": self.left_out(),
                "seconds": {"all_reduce": self.times,
                            "dtypes": self.of_dtypes, "many": self.of_many},
                "aims": [{**dataclasses.asdict(verdict),
                          "missed_by": verdict.missed_by()}
                         for verdict in self.verdicts]}


def output_file(text):
    """Open before hours go into what is written; what it has stays until then."""
    try:
        return open(text, "a", encoding="utf-8")
    except OSError as error:
        raise argparse.ArgumentTypeError(
            f"{text}: {error.strerror}") from error


def whole_numbers(text):
    return [int(word) for word in text.split(",")]


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="./dev bench in_process", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["tutti", "gloo", "open-mpi", "intel-mpi", "tensorflow"]:
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, metavar="N",
                        help="turns of each at each size [default: 5]")
    parser.add_argument("--devices", type=whole_numbers, default=DEVICES,
                        metavar="N,...", help="members [default: 2,4,8]; peers "
                        "are compared with 2 and 8")
    parser.add_argument("--sizes", type=whole_numbers, default=SIZES,
                        metavar="BYTES,...",
                        help="of the all-reduces [default: 4 to 67108864]")
    parser.add_argument("--no-peers", action="store_true",
                        help="Tutti and the machine's limits alone")
    parser.add_argument("--json", metavar="FILE", type=output_file,
                        help="also write what was measured to FILE")
    args = parser.parse_args(argv)
    if args.rounds < 1 or min(args.devices) < 2 or any(
            size < 4 or size % 4 for size in args.sizes):
        parser.error("wanted at least one round, at least 2 devices, and sizes "
                     "that are multiples of 4 bytes")
    return args


def main(argv):
    args = parse(argv)
    sys.stdout.reconfigure(line_buffering=True)
    about = {"machine": machine(), "date": str(datetime.date.today()),
             "rounds": args.rounds, "load_before": os.getloadavg()[0]}
    with contextlib.ExitStack() as stack:
        comparison = Comparison(args, stack)
        print(f"members of one process; {about['machine']}; {about['date']}; "
              f"medians of {args.rounds} rounds")
        for name, version in comparison.versions().items():
            print(f"  {name}: {version}; {SETTINGS[name]}")
        for reason in comparison.left_out():
            print("LEFT OUT:", reason)
        print(f"load before: {about['load_before']:.1f}")
        comparison.measure()
        comparison.print_ratios()
        if 8 in args.devices:
            comparison.measure_dtypes()
            comparison.measure_many()
        comparison.judge()
        about["load_after"] = os.getloadavg()[0]
        print(f"\nload after, with what was compared: {about['load_after']:.1f}")
        if args.json:
            with args.json as file:
                file.truncate(0)
                file.write(json.dumps(comparison.as_json(about), indent=2)
                           + "\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except WorkerError as failure:
        sys.exit(f"a process failed: {failure}")
