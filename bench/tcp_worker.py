#!/usr/bin/env python3
"""One end of a plain TCP connection, the yardstick for what is built on TCP.

usage: tcp_worker.py ADDRESS RANK

Rank 0 listens at the address HOST:PORT; rank 1 connects. Understands what
serve_calls.h says, but for the check. "stream" sends BYTES from rank 0 to rank 1
once per call, all on each other's heels: the times, which rank 1 alone says, are
from the end of one to the end of the next. "ping" sends them to and fro.
"""

import socket
import sys
import time

PATIENCE_SECONDS = 60


def connect(address, rank):
    host, port = address.rsplit(":", 1)
    if rank == 0:
        with socket.create_server((host, int(port))) as listener:
            connection = listener.accept()[0]
    else:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                connection = socket.create_connection((host, int(port)))
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive(connection, buffer):
    view = memoryview(buffer)
    while view:
        got = connection.recv_into(view, len(view), socket.MSG_WAITALL)
        if got == 0:
            raise EOFError("the other end is gone")
        view = view[got:]


def stream(connection, rank, buffer, calls):
    """Moves the buffer once more than there are times."""
    times = []
    for i in range(calls + 1):
        if rank == 0:
            connection.sendall(buffer)
            continue
        receive(connection, buffer)
        now = time.perf_counter_ns()
        if i > 0:
            times.append(now - last)
        last = now
    return times


def ping(connection, rank, buffer, calls):
    times = []
    for _ in range(calls):
        begin = time.perf_counter_ns()
        if rank == 0:
            connection.sendall(buffer)
        receive(connection, buffer)
        if rank == 1:
            connection.sendall(buffer)
        times.append(time.perf_counter_ns() - begin)
    return times


def main(address, rank):
    connection = connect(address, rank)
    print("READY TCP", flush=True)
    for line in sys.stdin:
        what, *numbers = line.split()
        num_bytes, warmup, calls = map(int, numbers)
        move = {"stream": stream, "ping": ping}[what]
        times = move(connection, rank, bytearray(num_bytes), warmup + calls)
        print("OK", *times[warmup:], flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
