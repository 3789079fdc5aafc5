#!/usr/bin/env python3
"""Compares all-reduces between two hosts with a plain TCP stream, in one run.

The hosts are network namespaces, each with process ids of its own, so that
nothing but the network between them can be used; each sends at most 1 Gbit/s
(veth, TBF). Only the superuser can make them.

An all-reduce of S bytes between two has each send S bytes and receive as many
(all of its input, or half of that and half of the result), both ways at once on
this link: the share is S per time of `tutti perf all_reduce`, of what a TCP
stream moves one way. They take turns; figures are medians over rounds.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import threading

from workers import WorkerError, Workers

HERE = pathlib.Path(__file__).parent
MIB = 1 << 20
SIZES = [16 * MIB, 64 * MIB]
STREAM_BYTES = 64 * MIB
AIM = 0.9
HOSTS = ["10.98.76.1", "10.98.76.2"]
TUTTI_PORT, TCP_PORT = 7000, 7001
LIMIT = "root tbf rate 1gbit burst 256kb latency 50ms"

# What says who takes part; the tool is not to see what the machine says.
FOREIGN = re.compile("TUTTI_|SLURM_")


class NotAllowed(Exception):
    """Why there can be no network."""


class Network:
    """Two namespaces with a link between them."""

    def __init__(self, stack):
        for program in ["ip", "tc", "unshare"]:
            if shutil.which(program) is None:
                raise NotAllowed(f"there is no program {program}")
        names = [f"tutti-bench-{os.getpid()}-{i}" for i in range(2)]
        for name in names:
            self.do(f"ip netns add {name}")
            stack.callback(subprocess.run, ["ip", "netns", "del", name],
                           check=False)
        self.do(f"ip -n {names[0]} link add eth type veth peer name eth netns "
                f"{names[1]}")
        for name, host in zip(names, HOSTS):
            self.do(f"ip -n {name} addr add {host}/24 dev eth")
            self.do(f"ip -n {name} link set eth up")
            self.do(f"ip -n {name} link set lo up")
            self.do(f"tc -n {name} qdisc add dev eth {LIMIT}")
        # What a process on a host begins with.
        self.prefixes = [
            ["ip", "netns", "exec", name, "unshare", "--pid", "--fork",
             "--kill-child", "--mount-proc"] for name in names]
        self.do(" ".join([*self.prefixes[0], "true"]))

    @staticmethod
    def do(command):
        result = subprocess.run(command.split(), text=True,
                                capture_output=True, check=False)
        if result.returncode != 0:
            raise NotAllowed(f"{command}: {result.stderr.strip()}")


def perf(network, tutti, sizes):
    """What the tool says of the sizes, which are powers of four apart."""
    environment = {name: value for name, value in os.environ.items()
                   if not FOREIGN.match(name)}
    addresses = ",".join(f"{host}:{TUTTI_PORT}" for host in HOSTS)
    workers = [
        subprocess.Popen(
            [*prefix, tutti, "worker", "--cluster", addresses, "--task",
             str(task), "--insecure", "--", "perf", "all_reduce", "--json",
             "--min-bytes", str(sizes[0]), "--max-bytes", str(sizes[-1]),
             "--iterations", "3", "--warmup", "1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=environment)
        for task, prefix in enumerate(network.prefixes)]
    watchdog = threading.Timer(120, lambda: [one.kill() for one in workers])
    watchdog.start()
    outputs = [worker.communicate() for worker in workers]
    watchdog.cancel()
    for worker, (_, errors) in zip(workers, outputs):
        if worker.returncode != 0:
            sys.exit(f"tutti perf failed: {errors}")
    return {row["bytes"]: row for row in json.loads(outputs[0][0])}


def measure(network, tcp, args):
    """Prints the table; returns {size: share}."""
    stream, rows = [], []
    for _ in range(args.rounds):
        stream.append(STREAM_BYTES /
                      tcp.median("stream", STREAM_BYTES, 0, 3))
        rows.append(perf(network, args.tutti, SIZES))
    print(f"\nTCP stream: {statistics.median(stream) / 1e6:.1f} MB/s "
          f"({min(stream) / 1e6:.1f} to {max(stream) / 1e6:.1f})")
    shares = {}
    for size in SIZES:
        times = [row[size]["p50_us"] / 1e6 for row in rows]
        shares[size] = statistics.median(
            size / time / speed for time, speed in zip(times, stream))
        print(f"all_reduce of {size // MIB} MiB ({rows[0][size]['algorithm']}): "
              f"{statistics.median(times) * 1e3:.1f} ms, {shares[size]:.1%} of "
              "the stream")
    return shares


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="./dev bench network", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tutti", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=5, metavar="N",
                        help="turns of each [default: 5]")
    args = parser.parse_args(argv)
    if args.rounds < 1:
        parser.error("wanted at least one round")
    return args


def main(argv):
    args = parse(argv)
    with contextlib.ExitStack() as stack:
        try:
            network = Network(stack)
        except NotAllowed as error:
            print(f"LEFT OUT: the network between two hosts: {error}")
            return
        print(f"two hosts, 1 Gbit/s; {os.cpu_count()} processors; "
              f"{datetime.date.today()}; {args.rounds} rounds; load "
              f"{os.getloadavg()[0]:.1f}")
        tcp = Workers([
            [*prefix, sys.executable, HERE / "tcp_worker.py",
             f"{HOSTS[0]}:{TCP_PORT}", str(rank)]
            for rank, prefix in enumerate(network.prefixes)])
        stack.callback(tcp.close)
        shares = measure(network, tcp, args)
        worst = min(shares.values())
        print("  met:   " if worst >= AIM else "  MISSED:",
              f"at least {AIM:.0%} of a TCP stream from {SIZES[0] // MIB} MiB: "
              f"{worst:.1%} at worst")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except WorkerError as failure:
        sys.exit(f"a process failed: {failure}")
