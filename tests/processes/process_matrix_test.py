#!/usr/bin/env python3
"""Runs every collective among processes and looks at every element.

usage: process_matrix_test.py TUTTI launch|mpirun [LIBRARY]

With LIBRARY, which is host_name.cc, the processes of mpirun are on two hosts,
for all that MPI can tell, between which it sends all bytes.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from mpi_job import mpi_environment, own_environment, place_on_hosts

TUTTI = os.path.abspath(sys.argv[1])
USES_MPI = sys.argv[2] == "mpirun"
LIBRARY = sys.argv[3] if len(sys.argv) > 3 else None

# Tasks, and devices of each; of these, with TLS too.
SHAPES = ([(2, 1), (2, 2), (4, 1)] if LIBRARY else
          [(2, 1), (2, 2), (3, 2), (4, 1), (8, 1), (1, 1)] if USES_MPI else
          [(2, 1), (2, 2), (4, 2), (3, 3)])
TLS_SHAPES = [(2, 2), (3, 3)]

# Takes turns over the shapes: what is reduced, in which dtype. Each dtype and
# each reduction comes up.
REDUCTIONS = [("float16", "sum"), ("bfloat16", "avg"), ("int32", "bxor"),
              ("float64", "min"), ("int8", "band"), ("uint8", "bor"),
              ("float32", "prod"), ("int64", "max"), ("bfloat16", "sum"),
              ("int64", "avg"), ("float16", "max"), ("uint8", "prod"),
              ("int16", "min"), ("uint16", "sum"), ("uint32", "avg"),
              ("uint64", "max")]
MOVED_DTYPES = ["bool", "float32", "uint8", "bfloat16", "int64", "float16",
                "int8", "float64", "int32", "int16", "uint16", "uint32",
                "uint64"]

REDUCING = ["all_reduce", "reduce_scatter", "reduce"]
MOVING = ["all_gather", "broadcast", "all_to_all", "permute", "gather",
          "scatter"]
# The bytes of perf are those of all ranks' blocks together.
OF_BLOCKS = {"reduce_scatter", "all_gather", "all_to_all", "gather", "scatter"}

SIZE_OF = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1,
           "uint8": 1, "int32": 4, "int64": 8, "bool": 1,
           "int16": 2, "uint16": 2, "uint32": 4, "uint64": 8}

# Elements of a rank, or of a block: odd, as all products of odd numbers.
SMALLEST = 7
FACTOR = 11 * 13
MAX_BYTES = 1 << 20


class ProcessesTestCase(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def run_tool(self, *args):
        """What the tool prints when it succeeds."""
        return self.run_program(own_environment(), TUTTI, *args)

    def run_tasks(self, shape, *args, launch=()):
        """What task 0 prints of a command that all tasks run."""
        tasks, devices = shape
        if not USES_MPI:
            return self.run_tool("launch", "--tasks", tasks,
                                 "--devices-per-task", devices, *launch, "--",
                                 *args)
        with mpi_environment() as environment:
            options = place_on_hosts(environment, LIBRARY, 2,
                                     -(-tasks // 2)) if LIBRARY else []
            return self.run_program(environment, "mpirun", *options, "-n",
                                    tasks, TUTTI, *args, "--devices-per-task",
                                    devices)

    def run_program(self, environment, *command):
        result = subprocess.run(
            [*map(str, command)], cwd=self.root, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=120, capture_output=True,
            env=environment)
        self.assertEqual(result.returncode, 0, (command, result))
        return result.stdout

    def make_certificates(self):
        """Options that have the tasks use them."""
        self.run_tool("certs", "--tasks", max(t for t, _ in SHAPES), "--out",
                      "tls")
        return ["--tls-cert", "tls/task-{task}.pem", "--tls-key",
                "tls/task-{task}.key", "--tls-ca", "tls/ca.pem"]


class MatrixTest(ProcessesTestCase):
    """perf --check, over shapes, collectives, algorithms, dtypes and sizes."""

    def setUp(self):
        super().setUp()
        info = json.loads(self.run_tool("info", "--json"))
        # Algorithms of CPU devices that no other library runs.
        self.algorithms = [algorithm for algorithm in info["algorithms"]
                           if not algorithm["delegate"]
                           and algorithm["device_types"] != ["GPU"]]
        self.seen = set()  # Names of dtypes and of reductions.

    def names(self, collective, tasks):
        """Of the algorithms that do it among so many processes."""
        return {algorithm["name"] for algorithm in self.algorithms
                if collective in algorithm["collectives"]
                and (tasks == 1 or not algorithm["needs_one_process"])}

    def perf(self, shape, collective, options, launch=()):
        """The rows, of which none may have a wrong element."""
        rows = json.loads(self.run_tasks(
            shape, "perf", collective, "--algorithm", "all", "--json",
            "--iterations", 2, "--warmup", 1, *options, launch=launch))
        self.assertEqual({row["algorithm"] for row in rows},
                         self.names(collective, shape[0]))
        for row in rows:
            self.seen |= {row["dtype"], row["reduction"]}
            self.assertEqual(row["wrong"],
                             None if collective == "barrier" else 0, row)
        return rows

    def check_sizes(self, shape, collective, options, launch=()):
        dtype = options[options.index("--dtype") + 1]
        num_ranks = shape[0] * shape[1]
        blocks = num_ranks if collective in OF_BLOCKS else 1
        rows = self.perf(
            shape, collective,
            [*options, "--check", "--factor", FACTOR, "--max-bytes", MAX_BYTES,
             "--min-bytes", SMALLEST * blocks * SIZE_OF[dtype]], launch)
        counts = {row["count"] for row in rows}
        self.assertGreaterEqual(len(counts), 2)
        for count in counts:
            self.assertEqual((count % blocks, count // blocks % 2), (0, 1))

    def check_shape(self, index, shape, launch=()):
        num_ranks = shape[0] * shape[1]
        for i, collective in enumerate(REDUCING):
            turn = len(REDUCING) * index + i
            dtype, reduction = REDUCTIONS[turn % len(REDUCTIONS)]
            with self.subTest(shape=shape, collective=collective):
                self.check_sizes(shape, collective,
                                 ["--dtype", dtype, "--reduction", reduction],
                                 launch)
        for i, collective in enumerate(MOVING):
            turn = len(MOVING) * index + i
            options = ["--dtype", MOVED_DTYPES[turn % len(MOVED_DTYPES)]]
            if collective in ("broadcast", "gather", "scatter"):
                options += ["--root", num_ranks - 1]
            if collective == "permute":
                # All change tasks, where there are two devices; not a cycle.
                targets = [(rank + shape[1]) % num_ranks
                           for rank in range(num_ranks)]
                options += ["--permutation", ",".join(map(str, targets))]
            with self.subTest(shape=shape, collective=collective):
                self.check_sizes(shape, collective, options, launch)
        with self.subTest(shape=shape, collective="barrier"):
            self.perf(shape, "barrier", [], launch)

    def test_every_collective_of_every_shape(self):
        for index, shape in enumerate(SHAPES):
            self.check_shape(index, shape)
        self.assertLessEqual(set(SIZE_OF), self.seen)
        self.assertLessEqual(
            {"sum", "prod", "min", "max", "avg", "band", "bor", "bxor"},
            self.seen)

    if not USES_MPI:  # Which has no TLS.
        def test_every_collective_with_tls(self):
            launch = self.make_certificates()
            for index, shape in enumerate(TLS_SHAPES):
                self.check_shape(index + 1, shape, launch)

    def test_one_process(self):
        rows = json.loads(self.run_tasks((1, 3), "perf", "all_reduce",
                                         "--check", "--json"))
        self.assertEqual({row["wrong"] for row in rows}, {0})

    def test_buffers_of_several_messages(self):
        # More than one message of a transfer carries.
        elements = (9 << 20) // 4 + 1
        rows = self.perf((2, 1), "all_reduce",
                         ["--check", "--min-bytes", 4 * elements, "--max-bytes",
                          4 * elements])
        self.assertEqual({row["count"] for row in rows}, {elements})


class FilesTest(ProcessesTestCase):
    """run on files, by several processes, does what NumPy says it does."""

    def save(self, arrays):
        (self.root / "in").mkdir()
        for rank, array in enumerate(arrays):
            np.save(self.root / f"in/rank{rank}.npy", array)

    def run_collective(self, shape, *args):
        self.run_tasks(shape, "run", *args, "--input", "in/rank*.npy",
                       "--output", "out")
        return {int(re.fullmatch(r"rank(\d+)\.npy", path.name).group(1)):
                np.load(path) for path in (self.root / "out").iterdir()}

    def assert_outputs(self, found, wanted):
        self.assertEqual(sorted(found), sorted(wanted))
        for rank, array in wanted.items():
            self.assertEqual((found[rank].dtype, found[rank].shape),
                             (array.dtype, array.shape))
            np.testing.assert_array_equal(found[rank], array)

    def arrays(self, num_ranks, shape, dtype):
        """Small whole numbers, so that sums are exact in any order."""
        random = np.random.default_rng(4)
        return [random.integers(1, 9, shape).astype(dtype)
                for _ in range(num_ranks)]

    def test_all_gather_of_different_first_dimensions(self):
        arrays = [array[:(5 * rank) % 7]  # One of them has no row.
                  for rank, array in enumerate(self.arrays(6, (7, 3), "int16"))]
        arrays = [array.astype("int32") for array in arrays]
        self.save(arrays)
        wanted = np.concatenate(arrays)
        self.assert_outputs(self.run_collective((3, 2), "all_gather"),
                            {rank: wanted for rank in range(6)})

    def test_average(self):
        arrays = self.arrays(4, (11, 7), "float64")
        self.save(arrays)
        wanted = sum(arrays) / 4
        self.assert_outputs(
            self.run_collective((2, 2), "all_reduce", "--reduction", "avg"),
            {rank: wanted for rank in range(4)})

    def test_bfloat16(self):
        # The upper halves of float32, under the descr that ml_dtypes writes.
        arrays = self.arrays(3, 1001, "float32")
        self.save([(array.view("uint32") >> 16).astype("uint16").view("V2")
                   for array in arrays])
        for path in (self.root / "in").iterdir():
            path.write_bytes(path.read_bytes().replace(b"'|V2'", b"'<V2'"))
        found = self.run_collective((3, 1), "all_reduce")
        self.assertEqual(sorted(found), [0, 1, 2])
        for array in found.values():
            total = array.view("uint16").astype("uint32") << 16
            np.testing.assert_array_equal(total.view("float32"), sum(arrays))

    def test_groups_inside_and_across_tasks(self):
        arrays = self.arrays(6, (3, 5), "int64")
        self.save(arrays)
        # Of the tasks {0, 1, 2} and {3, 4, 5}, the middle group has both.
        wanted = {rank: arrays[rank - rank % 2] + arrays[rank - rank % 2 + 1]
                  for rank in range(6)}
        self.assert_outputs(
            self.run_collective((2, 3), "all_reduce", "--groups", 3), wanted)

    def test_only_the_root_has_a_result(self):
        arrays = self.arrays(4, (2, 9), "uint8")
        self.save(arrays)
        self.assert_outputs(
            self.run_collective((4, 1), "gather", "--root", 3),
            {3: np.concatenate(arrays)})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
