#!/usr/bin/env python3
"""Runs the tool as a user would, on files that NumPy wrote.

usage: tutti_test.py TUTTI
"""

import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import numpy as np

TUTTI = os.path.abspath(sys.argv[1])

DTYPES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"]
ROW_KEYS = ["collective", "bytes", "count", "dtype", "reduction", "algorithm",
            "p50_us", "p99_us", "algbw", "busbw", "wrong", "limit_share"]

# What has a --help.
PAGES = [[], ["run"], ["perf"], ["info"], ["explain"], ["tune"], ["verify"],
         ["schedule"], ["simulate"], ["launch"], ["worker"], ["certs"]]


class ToolTest(unittest.TestCase):
    """A folder of its own for each test, and ways to look at runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def run_tool(self, *args, **kwargs):
        return subprocess.run(
            [TUTTI, *map(str, args)], cwd=self.root, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=300,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kwargs})

    def succeed(self, *args):
        """What the tool prints."""
        result = self.run_tool(*args)
        self.assertEqual((result.returncode, result.stderr), (0, ""), args)
        self.assertNotIn("\x1b", result.stdout)
        return result.stdout

    def fail_with(self, status, *args, **kwargs):
        """The one line with which it fails."""
        result = self.run_tool(*args, **kwargs)
        self.assertEqual(result.returncode, status, (args, result))
        self.assertRegex(result.stderr, r"\Atutti: [^\n]+\n\Z")
        if args[:1] != ("perf",) or status == 2:
            self.assertFalse(result.stdout)
        return result.stderr

    def save(self, arrays, folder="in"):
        """One file per rank; the pattern that means them all."""
        (self.root / folder).mkdir(exist_ok=True)
        for rank, array in enumerate(arrays):
            np.save(self.root / folder / f"rank{rank}.npy", array)
        return f"{folder}/rank*.npy"

    def load(self, folder="out"):
        """{rank: array} of what was written."""
        arrays = {}
        for path in (self.root / folder).iterdir():
            rank = int(re.fullmatch(r"rank(\d+)\.npy", path.name).group(1))
            arrays[rank] = np.load(path)
        return arrays

    def run_collective(self, arrays, *args):
        """{rank: array} after `tutti run ARGS` on the arrays."""
        shutil.rmtree(self.root / "out", ignore_errors=True)
        self.succeed("run", *args, "--input", self.save(arrays), "--output",
                     "out")
        return self.load()

    def assert_outputs(self, found, wanted):
        self.assertEqual(sorted(found), sorted(wanted))
        for rank, array in wanted.items():
            self.assertEqual(found[rank].dtype, array.dtype)
            self.assertEqual(found[rank].shape, array.shape)
            np.testing.assert_array_equal(found[rank], array)

    def assert_nothing_written(self):
        self.assertFalse((self.root / "out").exists())


def arrays_of(num_ranks, shape, dtype="float32"):
    """Small whole numbers, so that sums are exact in any order."""
    random = np.random.default_rng(1)
    return [random.integers(1, 9, shape).astype(dtype) for _ in range(num_ranks)]


class CollectivesTest(ToolTest):
    """Every collective does what NumPy says it does."""

    def test_all_reduce_of_every_dtype(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                arrays = arrays_of(4, (7, 3), dtype)
                total = np.sum(arrays, axis=0, dtype=dtype)
                self.assert_outputs(self.run_collective(arrays, "all_reduce"),
                                    {rank: total for rank in range(4)})

    def test_every_reduction(self):
        arrays = arrays_of(3, 1001, "int32")
        for name, wanted in {
                "sum": sum(arrays), "prod": arrays[0] * arrays[1] * arrays[2],
                "min": np.minimum.reduce(arrays),
                "max": np.maximum.reduce(arrays),
                "avg": (sum(arrays) / 3).astype("int32"),
                "band": np.bitwise_and.reduce(arrays),
                "bor": np.bitwise_or.reduce(arrays),
                "bxor": np.bitwise_xor.reduce(arrays)}.items():
            with self.subTest(name):
                found = self.run_collective(arrays, "all_reduce", "--reduction",
                                            name)
                self.assert_outputs(found, {rank: wanted for rank in range(3)})

    def test_average_of_floats(self):
        arrays = arrays_of(4, 10)
        found = self.run_collective(arrays, "all_reduce", "--reduction", "avg")
        self.assert_outputs(found, {r: sum(arrays) / 4 for r in range(4)})

    def test_all_gather(self):
        arrays = arrays_of(3, (2, 5))
        wanted = np.concatenate(arrays)
        self.assert_outputs(self.run_collective(arrays, "all_gather"),
                            {rank: wanted for rank in range(3)})

    def test_all_gather_of_different_first_dimensions(self):
        arrays = [array[:rank] for rank, array in enumerate(arrays_of(4, (5, 2)))]
        wanted = np.concatenate(arrays)
        self.assert_outputs(self.run_collective(arrays, "all_gather"),
                            {rank: wanted for rank in range(4)})

    def test_reduce_scatter(self):
        arrays = arrays_of(3, (6, 2))
        total = sum(arrays)
        self.assert_outputs(
            self.run_collective(arrays, "reduce_scatter"),
            {rank: total[2 * rank:2 * rank + 2] for rank in range(3)})

    def test_broadcast(self):
        arrays = arrays_of(3, (4, 2))
        self.assert_outputs(
            self.run_collective(arrays, "broadcast", "--root", 2),
            {rank: arrays[2] for rank in range(3)})

    def test_broadcast_of_the_roots_file_alone(self):
        array = arrays_of(1, 9)[0]
        self.save([array])
        self.succeed("run", "broadcast", "--root", 3, "--devices", 5, "--input",
                     "in/rank0.npy", "--output", "out")
        self.assert_outputs(self.load(), {rank: array for rank in range(5)})

    def test_scatter(self):
        arrays = arrays_of(2, (4, 3))
        wanted = {rank: arrays[1][2 * rank:2 * rank + 2] for rank in range(2)}
        self.assert_outputs(self.run_collective(arrays, "scatter", "--root", 1),
                            wanted)

    def test_all_to_all(self):
        arrays = arrays_of(3, (6, 2))
        wanted = {
            rank: np.concatenate([a[2 * rank:2 * rank + 2] for a in arrays])
            for rank in range(3)}
        self.assert_outputs(self.run_collective(arrays, "all_to_all"), wanted)

    def test_permute(self):
        arrays = arrays_of(3, 5)
        found = self.run_collective(arrays, "permute", "--permutation", "2,0,1")
        self.assert_outputs(
            found, {2: arrays[0], 0: arrays[1], 1: arrays[2]})

    def test_reduce_writes_the_root_alone(self):
        arrays = arrays_of(3, 5)
        self.assert_outputs(self.run_collective(arrays, "reduce", "--root", 1),
                            {1: sum(arrays)})

    def test_gather_writes_the_root_alone(self):
        arrays = arrays_of(3, (2, 2))
        self.assert_outputs(self.run_collective(arrays, "gather", "--root", 2),
                            {2: np.concatenate(arrays)})

    def test_results_are_shown_as_they_come(self):
        arrays = [np.array([1, -3], "float32"), np.array([2, np.nan], "float32")]
        for collective, wanted in {
                "all_reduce": ["rank 0: float32[2], min 3, mean 3, max 3, 1 nan",
                               "rank 1: float32[2], min 3, mean 3, max 3, 1 nan"],
                "reduce_scatter": ["rank 0: float32[1], min 3, mean 3, max 3",
                                   "rank 1: float32[1], 1 nan"],
                "gather": ["rank 0: float32[4], min -3, mean 0, max 2, 1 nan"],
        }.items():
            with self.subTest(collective):
                shutil.rmtree(self.root / "out", ignore_errors=True)
                lines = self.succeed(
                    "run", collective, "--watch", "--input", self.save(arrays),
                    "--output", "out").splitlines()
                self.assertEqual(sorted(lines[:-1]), wanted)
                self.assertRegex(lines[-1], "wrote out/rank0.npy")
        self.fail_with(2, "run", "barrier", "--devices", 2, "--watch")

    def test_barrier(self):
        self.assertEqual(self.succeed("run", "barrier", "--devices", 8),
                         "barrier on 8 ranks: done\n")

    def test_every_algorithm_of_every_collective(self):
        info = json.loads(self.succeed("info", "--json"))
        total_runs = 0
        for algorithm in info["algorithms"]:
            if algorithm["delegate"]:  # In tests of its own, with that library.
                continue
            for collective in algorithm["collectives"]:
                if collective == "barrier":
                    self.succeed("run", "barrier", "--devices", 6, "--tasks", 2,
                                 "--algorithm", algorithm["name"])
                    continue
                extra = (["--permutation", "1,2,3,4,5,0"]
                         if collective == "permute" else [])
                with self.subTest(f"{algorithm['name']}, {collective}"):
                    arrays = arrays_of(6, (12, 3))
                    by_choice = self.run_collective(arrays, collective, *extra)
                    named = self.run_collective(
                        arrays, collective, "--algorithm", algorithm["name"],
                        "--tasks", 2, *extra)
                    self.assert_outputs(named, by_choice)
                    total_runs += 1
        self.assertGreaterEqual(total_runs, 9)

    def test_what_a_library_runs_needs_processes_that_it_connects(self):
        info = json.loads(self.succeed("info", "--json"))
        for algorithm in info["algorithms"]:
            if algorithm["delegate"]:
                with self.subTest(algorithm["name"]):
                    self.assertIn(
                        f"{algorithm['name']} needs processes that "
                        f"{algorithm['delegate']} connects; these can serve: ",
                        self.fail_with(
                            1, "perf", algorithm["collectives"][0],
                            "--algorithm", algorithm["name"]))

    def test_the_order_of_ranks_can_be_chosen(self):
        arrays = arrays_of(4, 12)
        for algorithm, ranks in [("RingReduce", "2,0,3,1"),
                                 ("ShuffleReduce", "3,1")]:
            with self.subTest(algorithm):
                found = self.run_collective(arrays, "all_reduce", "--algorithm",
                                            algorithm, "--rank-list", ranks)
                self.assert_outputs(found, {r: sum(arrays) for r in range(4)})
                self.succeed("perf", "all_reduce", "--devices", 4, "--iterations",
                             1, "--max-bytes", 64, "--check", "--algorithm",
                             algorithm, "--rank-list", ranks)
        files = ["--input", self.save(arrays), "--output", "none"]
        for ranks, algorithm in [("0,1,2", "RingReduce"),
                                 ("0,1", "TreeReduce")]:
            error = self.fail_with(1, "run", "all_reduce", *files, "--algorithm",
                                   algorithm, "--rank-list", ranks)
            self.assertIn("rank", error)
        for ranks in "0,1,2,4", "1,1", "0,x":
            error = self.fail_with(2, "run", "all_reduce", *files, "--rank-list",
                                   ranks)
            self.assertIn("--rank-list", error)

    def test_groups_run_apart_and_ranks_keep_their_numbers(self):
        arrays = arrays_of(6, 4)
        found = self.run_collective(arrays, "all_reduce", "--groups", 3)
        self.assert_outputs(
            found, {rank: arrays[rank - rank % 2] + arrays[rank - rank % 2 + 1]
                    for rank in range(6)})

    def test_natural_order(self):
        arrays = arrays_of(12, 3)
        wanted = np.concatenate(arrays)
        found = self.run_collective(arrays, "all_gather")
        np.testing.assert_array_equal(found[0], wanted)

    def gather(self, *files):
        """What becomes of files of one element; what is said of their order."""
        result = self.run_tool("run", "all_gather", "--input", *files,
                               "--output", "out")
        self.assertEqual(result.returncode, 0, result)
        return list(self.load()[0]), result.stderr

    def test_names_are_put_in_natural_order_and_that_is_told(self):
        self.save([np.array([rank]) for rank in range(12)])
        names = sorted(f"in/rank{rank}.npy" for rank in range(12))
        note = ("tutti: note: files are taken in natural order of their names, "
                "not as given: ")
        gathered, told = self.gather(*names)  # As a shell expands rank*.npy.
        self.assertEqual(gathered, list(range(12)))
        self.assertEqual(
            told, note + "rank 0 has in/rank0.npy, rank 1 has in/rank1.npy, "
            "rank 2 has in/rank2.npy, ..., rank 11 has in/rank11.npy\n")
        shutil.rmtree(self.root / "out")
        gathered, told = self.gather("in/rank3.npy", "in/rank2.npy")
        self.assertEqual(gathered, [2, 3])
        self.assertEqual(told, note + "rank 0 has in/rank2.npy, rank 1 has "
                         "in/rank3.npy\n")
        self.assertEqual(self.gather("in/rank2.npy", "in/rank3.npy")[1], "")

    def test_of_the_roots_files_alone_the_groups_are_told(self):
        self.save(arrays_of(2, 1))
        result = self.run_tool(
            "run", "broadcast", "--groups", 2, "--devices", 4, "--input",
            "in/rank1.npy", "in/rank0.npy", "--output", "out")
        self.assertRegex(result.stderr, "group 0 has in/rank0.npy, group 1 has "
                         "in/rank1.npy\n$")

    def test_a_name_in_brackets_is_one_name(self):
        arrays = arrays_of(3, 4)
        for name, array in zip(["12", "1", "[12]"], arrays):
            with open(self.root / name, "wb") as file:
                np.save(file, array)
        for words in (["--input", "./[12]"], ["--input", "[12]"],
                      ["--input=[12]"]):
            self.succeed("run", "all_reduce", *words, "--output", "out")
            self.assert_outputs(self.load(), {0: arrays[2]})
        self.assertIn("[x,y]", self.fail_with(
            1, "run", "all_reduce", "--input", "[x,y]", "--output", "other"))
        self.assertIn("[RingReduce,TreeReduce]", self.fail_with(
            2, "verify", "[RingReduce,TreeReduce]"))

    def test_several_inputs_follow_one_another(self):
        arrays = arrays_of(3, 2)
        self.save(arrays)
        self.succeed("run", "all_gather", "--input", "in/rank2.npy", "--input",
                     "in/rank[01].npy", "--output", "out")
        np.testing.assert_array_equal(
            self.load()[0], np.concatenate([arrays[2], arrays[0], arrays[1]]))

    def test_scalars_empty_arrays_and_single_ranks(self):
        for shape in [(), 0, (3, 0), (0, 3), 1]:
            with self.subTest(shape):
                arrays = [np.asarray(array) for array in arrays_of(2, shape)]
                total = np.asarray(arrays[0] + arrays[1], "float32")
                self.assert_outputs(self.run_collective(arrays, "all_reduce"),
                                    {rank: total for rank in range(2)})
        array = arrays_of(1, 5)[0]
        np.save(self.root / "alone.npy", array)
        self.succeed("run", "all_reduce", "--input", "alone.npy", "--output",
                     "alone")
        self.assert_outputs(self.load("alone"), {0: array})

    def test_bool_is_moved(self):
        arrays = arrays_of(2, 5, "int8")
        arrays = [array > 4 for array in arrays]
        self.assert_outputs(self.run_collective(arrays, "all_gather"),
                            {r: np.concatenate(arrays) for r in range(2)})

    def test_bfloat16(self):
        # The upper halves of float32, under the descr that ml_dtypes writes.
        arrays = arrays_of(2, 7)
        bits = [(array.view("uint32") >> 16).astype("uint16")
                for array in arrays]
        self.save([b.view("V2") for b in bits])
        path = self.root / "in/rank1.npy"
        path.write_bytes(path.read_bytes().replace(b"'|V2'", b"'<V2'"))
        line = self.succeed("run", "all_reduce", "--input", "in/*.npy",
                            "--output", "out")
        self.assertIn("bfloat16[7]", line)
        written = (self.root / "out/rank0.npy").read_bytes()
        self.assertIn(b"'descr': '<V2'", written)
        total = np.load(self.root / "out/rank0.npy").view("uint16")
        np.testing.assert_array_equal(
            (total.astype("uint32") << 16).view("float32"), sum(arrays))

    def test_every_version_of_the_format(self):
        arrays = arrays_of(3, (4, 2))
        self.save(arrays)
        for rank, version in enumerate([(1, 0), (2, 0), (3, 0)]):
            with open(self.root / f"in/rank{rank}.npy", "wb") as file:
                np.lib.format.write_array(file, arrays[rank], version)
        self.succeed("run", "all_reduce", "--input", "in/*.npy", "--output",
                     "out")
        self.assert_outputs(self.load(), {r: sum(arrays) for r in range(3)})

    def test_what_another_writer_says_of_one_byte(self):
        # As cnpy does: a byte order for bytes, and a preamble padded to 16.
        (self.root / "in").mkdir()
        for rank in range(2):
            text = b"{'descr': '<u1', 'fortran_order': False, 'shape': (3,), }"
            text += b" " * (15 - (10 + len(text)) % 16) + b"\n"
            (self.root / f"in/rank{rank}.npy").write_bytes(
                b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text +
                bytes([1, 2, 3 + rank]))
        self.succeed("run", "all_reduce", "--input", "in/*.npy", "--output",
                     "out")
        total = np.array([2, 4, 7], "uint8")
        self.assert_outputs(self.load(), {0: total, 1: total})

    def test_says_what_it_did(self):
        pattern = self.save(arrays_of(4, 1001))
        self.assertEqual(
            self.succeed("run", "all_reduce", "--input", pattern, "--output",
                         "out/"),
            "all_reduce sum float32[1001] on 4 ranks: wrote out/rank0.npy ... "
            "out/rank3.npy\n")


class FailuresTest(ToolTest):
    """What goes wrong takes one line, and leaves nothing behind."""

    def fail_on_input(self, *words):
        """`tutti run all_reduce` on in/*.npy names each of the words."""
        line = self.fail_with(1, "run", "all_reduce", "--input", "in/*.npy",
                              "--output", "out")
        for word in words:
            self.assertIn(word, line)
        self.assert_nothing_written()

    def test_different_shapes(self):
        self.save([np.zeros(3), np.zeros(3), np.zeros(4)])
        self.fail_on_input("in/rank0.npy", "in/rank2.npy", "[3]", "[4]")

    def test_different_dtypes(self):
        self.save([np.zeros(3, "float32"), np.zeros(3, "int32")])
        self.fail_on_input("in/rank0.npy", "in/rank1.npy", "float32", "int32")

    def test_arrays_of_other_kinds(self):
        structure = np.zeros(3, [("a", "f4"), ("b", "i4")])
        for array, words in [
                (np.zeros((2, 3), order="F"), ["Fortran"]),
                (np.zeros(3, ">f4"), ["big-endian", ">f4"]),
                (np.array([None, {}]), ["objects"]),
                (structure, ["structured"]),
                (np.zeros(3, "complex64"), ["<c8"]),
                (np.zeros(3, "uint16"), ["<u2", "bfloat16"]),
                (np.array(["text"]), ["<U4"])]:
            with self.subTest(words):
                self.save([array, array])
                self.fail_on_input("in/rank0.npy", *words)

    def test_damaged_files(self):
        self.save([np.arange(3.0), np.arange(3.0)])
        path = self.root / "in/rank1.npy"
        good = path.read_bytes()
        for content, word in [(good[:-1], "truncated"), (good + b"x", "too long"),
                              (b"", "truncated"), (b"PK" + good, "no .npy file"),
                              (good[:6] + b"\x09" + good[7:], "version 9.0"),
                              (good[:8] + b"\xff\xff" + good[10:], "truncated"),
                              (good[:40], "truncated")]:
            with self.subTest(word):
                path.write_bytes(content)
                self.fail_on_input("in/rank1.npy", word)

    def test_missing_files(self):
        (self.root / "file").touch()
        for pattern, why in [
                ("nothing*.npy", "matches no file"),
                ("nothing.npy", "no such file"),
                ("no/dir/x*.npy", "the directory no does not exist"),
                ("no/x.npy", "the directory no does not exist"),
                ("file/x.npy", "file is no directory"),
                (".", "is a directory; wanted a .npy file")]:
            line = self.fail_with(1, "run", "all_reduce", "--input", pattern,
                                  "--output", "out")
            self.assertIn(pattern, line)
            self.assertIn(why, line)
        self.assert_nothing_written()

    def test_what_the_library_refuses(self):
        pattern = self.save([np.zeros(5), np.zeros(5)])
        run = ["run", "reduce_scatter", "--input", pattern, "--output", "out"]
        line = self.fail_with(1, *run)
        self.assertIn("in/rank0.npy", line)
        self.assertIn("[5]", line)
        self.assertNotIn("instance", line)
        run[1] = "all_reduce"
        self.assertIn("band", self.fail_with(1, *run, "--reduction", "band"))
        self.assert_nothing_written()

    def test_an_output_that_cannot_be_written_leaves_none(self):
        pattern = self.save([np.zeros(3), np.zeros(3)])
        (self.root / "out/rank1.npy").mkdir(parents=True)
        line = self.fail_with(1, "run", "all_reduce", "--input", pattern,
                              "--output", "out")
        self.assertIn("out/rank1.npy", line)
        self.assertEqual(os.listdir(self.root / "out"), ["rank1.npy"])

    def test_an_output_directory_that_is_a_file(self):
        pattern = self.save([np.zeros(3), np.zeros(3)])
        line = self.fail_with(1, "run", "all_reduce", "--input", pattern,
                              "--output", "in/rank0.npy")
        self.assertIn("in/rank0.npy", line)

    def test_a_full_disk_leaves_nothing(self):
        # The kernel refuses to let a file grow past the limit.
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        pattern = self.save([np.zeros(500), np.zeros(500)])
        line = self.fail_with(1, "run", "all_reduce", "--input", pattern,
                              "--output", "out", preexec_fn=limit)
        self.assertIn("out/rank0.npy: cannot be written", line)
        self.assert_nothing_written()

        # Directories are not empty before the last task has given up.
        result = self.run_tool("launch", "--tasks", 2, "--", "run",
                               "all_reduce", "--input", pattern, "--output",
                               "out/deep", preexec_fn=limit)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result)
        self.assertRegex(result.stderr.splitlines()[-1],
                         r"out/deep/rank\d\.npy: cannot be written")
        self.assert_nothing_written()

    def test_a_standard_output_that_nobody_reads(self):
        pattern = self.save([np.zeros(500), np.zeros(500)])
        for args in (["run", "all_reduce", "--input", pattern, "--output",
                      "out", "--watch"],
                     ["perf", "all_reduce", "--iterations", 2],
                     ["launch", "--tasks", 2, "--", "perf", "all_reduce",
                      "--iterations", 2]):
            with self.subTest(args):
                read, write = os.pipe()
                os.close(read)
                line = self.run_tool(*args, stdout=write)
                os.close(write)
                self.assertEqual(line.returncode, 1, line)
                self.assertRegex(line.stderr, r"\Atutti: .*cannot be written\n")
        self.assertFalse(list(self.root.glob("out/.*")))

    def test_inputs_are_not_replaced(self):
        arrays = arrays_of(3, 4)
        self.save(arrays)
        line = self.fail_with(2, "run", "all_reduce", "--input", "in/rank*.npy",
                              "--output", "in/../in")
        self.assertIn("in/rank0.npy", line)
        self.assert_outputs(self.load("in"), dict(enumerate(arrays)))
        # Nor is the one that only the root's result would replace.
        self.fail_with(2, "run", "reduce", "--root", 1, "--input",
                       "in/rank*.npy", "--output", "in")

    def test_links_stay_and_what_they_lead_to_is_replaced(self):
        pattern = self.save(arrays_of(2, 3))
        for folder in ("out", "far"):
            (self.root / folder).mkdir()
        np.save(self.root / "far/old.npy", np.zeros(3))
        (self.root / "out/rank0.npy").symlink_to("../far/old.npy")
        (self.root / "out/rank1.npy").symlink_to("../far/new.npy")
        run = ["run", "all_reduce", "--output", "out", "--input", pattern]
        self.succeed(*run)
        self.assertTrue((self.root / "out/rank0.npy").is_symlink())
        self.assertEqual(sorted(os.listdir(self.root / "far")),
                         ["new.npy", "old.npy"])
        total = sum(arrays_of(2, 3))
        self.assert_outputs(self.load(), {0: total, 1: total})
        # Both results would go to one file, or one to an input.
        for target, word in [("../far/old.npy", "lead to one file"),
                             ("../in/rank1.npy", "would replace the input")]:
            (self.root / "out/rank1.npy").unlink()
            (self.root / "out/rank1.npy").symlink_to(target)
            self.assertIn(word, self.fail_with(2, *run))
        np.testing.assert_array_equal(np.load(self.root / "far/old.npy"), total)

    def test_results_of_an_older_run_are_pointed_out(self):
        run = ["run", "all_reduce", "--output", "out", "--input"]
        self.succeed(*run, self.save(arrays_of(4, 3)))
        result = self.run_tool(*run, "in/rank[01].npy")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr, "tutti: note: out also holds rank2.npy "
                         "rank3.npy, not of this run\n")

    def test_a_signal_leaves_nothing(self):
        # Much to write, and a signal as soon as the first of it is there.
        pattern = self.save([np.zeros(1 << 22)] * 8)
        with subprocess.Popen(
                [TUTTI, "run", "broadcast", "--input", pattern, "--output",
                 "new/out"], cwd=self.root, stdout=subprocess.PIPE) as process:
            while process.poll() is None and not any(
                    self.root.glob("new/out/.rank*.tmp")):
                pass
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=300)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertFalse((self.root / "new").exists())

    def test_old_outputs_survive_a_failure_and_are_replaced_by_success(self):
        arrays = arrays_of(2, 3)
        self.run_collective(arrays, "all_reduce")
        self.fail_with(1, "run", "all_reduce", "--input", "in/rank0.npy",
                       "missing.npy", "--output", "out")
        self.assert_outputs(self.load(), {r: sum(arrays) for r in range(2)})
        self.succeed("run", "all_gather", "--input", "in/rank*.npy", "--output",
                     "out")
        self.assert_outputs(self.load(),
                            {r: np.concatenate(arrays) for r in range(2)})

    def test_a_deadline_is_met_or_said_to_be_missed(self):
        pattern = self.save(arrays_of(2, 10))
        run = ["run", "all_reduce", "--input", pattern, "--output", "out"]
        self.fail_with(1, *run, "--deadline", "1e-9")
        self.assert_nothing_written()
        self.succeed(*run, "--deadline", "100")
        perf = ["perf", "all_reduce", "--max-bytes", 4, "--iterations", 1]
        for options in ([], ["launch", "--tasks", 2, "--"]):
            result = self.run_tool(*options, *perf, "--deadline", "1e-9")
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn("tutti: the library's choice with 4 bytes: "
                          "all_reduce of group 0, ", result.stderr)
            self.assertIn(": the deadline passed after ", result.stderr)
            self.succeed(*options, *perf, "--deadline", 100)

    def test_a_full_standard_output(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            self.fail_with(1, "info", stdout=full)


class UsageTest(ToolTest):
    """A wrong command line is told from a failed run."""

    def test_wrong_command_lines(self):
        pattern = self.save([np.zeros(6)] * 3)
        files = ["--input", pattern, "--output", "out"]
        for args in [
                [], ["fly"], ["run"], ["run", "all_reduce", "--fly", *files],
                ["run", "fly", *files], ["run", "all_reduce"],
                ["run", "all_reduce", "--input", pattern],
                ["run", "all_reduce", "--output", "out"],
                ["run", "all_reduce", *files, "--reduction", "fly"],
                ["run", "all_reduce", *files, "--algorithm", "Fly"],
                ["run", "all_reduce", *files, "--algorithm", "PairwiseAllToAll"],
                ["run", "all_reduce", *files, "--root", "0"],
                ["run", "all_reduce", *files, "--groups", "2"],
                ["run", "all_reduce", *files, "--groups", "0"],
                ["run", "all_reduce", *files, "--tasks", "2"],
                ["run", "all_reduce", *files, "--devices", "4"],
                ["run", "all_reduce", *files, "--deadline", "-1"],
                ["run", "all_reduce", *files, "--deadline", "nan"],
                ["run", "broadcast", *files, "--root", "3"],
                ["run", "broadcast", *files, "--root", "-1"],
                ["run", "broadcast", *files, "--root", "x"],
                ["run", "permute", *files],
                ["run", "permute", *files, "--permutation", "0,1,1"],
                ["run", "permute", *files, "--permutation", "0,1"],
                ["run", "permute", *files, "--permutation", "0,x"],
                ["run", "barrier"], ["run", "barrier", *files],
                ["perf"], ["perf", "fly"],
                ["perf", "all_reduce", "--max-bytes", "fly"],
                ["perf", "all_reduce", "--devices", "0"],
                ["perf", "all_reduce", "--factor", "1"],
                ["perf", "all_reduce", "--bytes", "0"],
                ["perf", "all_reduce", "--bytes", "4", "--max-bytes", "8"],
                ["perf", "barrier", "--bytes", "4"],
                ["perf", "all_reduce", "--dtype", "fly"],
                ["perf", "all_reduce", "--algorithm", "Fly"],
                ["perf", "all_reduce", "--algorithm", "RingGather"],
                ["perf", "all_reduce", "--algorithm", "RingReduce,RingGather"],
                ["perf", "all_reduce", "--iterations", "0"],
                ["perf", "all_reduce", "extra"],
                ["explain"], ["explain", "fly"],
                ["explain", "all_reduce", "--layout", "8"],
                ["explain", "all_reduce", "--layout", "1x65537"],
                ["explain", "all_reduce", "--bytes", "fly"],
                ["explain", "all_reduce", "--dtype", "bool"],
                ["explain", "all_reduce", "--algorithm", "Fly"],
                ["explain", "all_reduce", "--root", "1"],
                ["explain", "all_gather", "--reduction", "sum"],
                ["info", "extra"], ["verify", "Fly"],
                ["verify", "--max-ranks", "0"],
                ["schedule"], ["schedule", "Fly"],
                ["schedule", "LocalReduce"],
                ["schedule", "RingReduce", "--ranks", "0"],
                ["schedule", "RingReduce", "--ranks", "1025"],
                ["schedule", "RingReduce", "--layout", "8"],
                ["schedule", "RingReduce", "--ranks", "65", "--svg", "out"],
                ["schedule", "RingReduce", "--svg", "out", "--goal", "out"],
                ["schedule", "RingReduce", "--collective", "barrier"],
                ["schedule", "RingReduce", "--bytes", "0"],
                ["schedule", "Gather", "--ranks", "4", "--root", "4"],
                ["simulate"], ["simulate", "Fly"],
                ["simulate", "LocalReduce"],
                ["simulate", "RingReduce", "--ranks", "1000001"],
                ["simulate", "RingReduce", "--bytes", "0"]]:
            with self.subTest(" ".join(args)):
                self.assertIn("--help`)", self.fail_with(2, *args))
        self.assert_nothing_written()

    def test_lists_have_no_empty_items(self):
        for words in (["--permutation", "1,,0"], ["--permutation=1,0,"],
                      ["--permutation", ",1,0"], ["--rank-list", "0,,1"]):
            line = self.fail_with(2, "run", "permute", *words, "--input", "a",
                                  "b", "--output", "out")
            self.assertIn("has an empty item", line)
            self.assertIn(words[0].split("=")[0] + ":", line)

    def test_all_commands_are_listed_where_one_is_wanted(self):
        self.assertIn("wanted a command: run, perf, launch, worker, certs, "
                      "info, explain, tune, verify, schedule or simulate",
                      self.fail_with(2))

    def test_values_may_look_like_options(self):
        np.save(self.root / "-x.npy", np.ones(3))
        np.save(self.root / "--y.npy", np.ones(3))
        self.succeed("run", "all_reduce", "--input", "-x.npy", "./--y.npy",
                     "--output=--watch")
        self.assertEqual(len(self.load("--watch")), 2)
        self.succeed("run", "all_reduce", "--output", "-out", "--input",
                     "--y.npy")
        self.assertEqual(len(self.load("-out")), 1)

    def test_errors_say_whose_help_to_read(self):
        self.assertIn("see `tutti perf --help`", self.fail_with(2, "perf"))
        self.assertIn("see `tutti --help`", self.fail_with(2))
        for words in (["--permutation", "1,,0"], ["--root", "--check"]):
            self.assertIn("see `tutti perf --help`",
                          self.fail_with(2, "perf", "permute", *words))

    def test_unknown_names_list_the_known_ones(self):
        self.assertIn("all_reduce", self.fail_with(2, "perf", "fly"))
        self.assertIn("RingReduce", self.fail_with(2, "verify", "Fly"))
        self.assertRegex(
            self.fail_with(2, "perf", "all_reduce", "--algorithm", "RingGather"),
            "RingGather does not do all_reduce .*RingReduce, ShuffleReduce, .*TreeReduce")

    def test_errors_name_the_value_and_what_is_wanted(self):
        files = ["--input", self.save([np.zeros(6)] * 3), "--output", "out"]
        run = ["run", "all_reduce", *files]
        perf = ["perf", "all_reduce"]
        for args, words in [
                (["fly"], ['unknown command "fly"', "known: run, perf, launch, worker, "]),
                (["run", *files], ["wanted a COLLECTIVE", "all_to_all"]),
                ([*run, "extra"], ['unexpected argument "extra"']),
                ([*run, "info"], ['unexpected argument "info"']),
                ([*run, "--fly", "3"], ['unknown option "--fly"']),
                ([*run, "--groups"], ["--groups needs a value"]),
                (["run", "all_reduce", "--output", "--watch", *files[:2]],
                 ['--output needs a value, found "--watch"']),
                (["run", "all_reduce", "--output=", "--groups=1", *files[:2]],
                 ['--output needs a value, found "--groups=1"']),
                (["run", "all_reduce", "--input", *files[2:]],
                 ['--input needs a value, found "--output"']),
                ([*run, "--tasks", "1", "--tasks", "2"],
                 ["--tasks is given more than once"]),
                ([*run, "--deadline", "1s"],
                 ['--deadline: "1s"', "positive number of seconds"]),
                (["tune", "--output", "x", "--deadline", "0"],
                 ['--deadline: "0"', "positive number of seconds"]),
                ([*perf, "--deadline", "0"],
                 ['--deadline: "0"', "positive number of seconds"]),
                ([*run, "--algorithm", ""], ['--algorithm: "" is no name']),
                (["run", "all_reduce", "--input", "", "--output", "out"],
                 ['--input: "" is no name']),
                (["run", "reduce", *files, "--root", "x"],
                 ['--root: "x" is no whole number from 0 to 65535']),
                (["run", "permute", *files, "--permutation", "2,x,1"],
                 ['--permutation: "x" is no whole number']),
                ([*perf, "--devices", "-1"],
                 ['--devices: "-1" is no whole number from 1 to 65536']),
                ([*perf, "--seed", "-1"], ['--seed: "-1"']),
                ([*perf, "--max-bytes", "99999999999999999999"],
                 ['"99999999999999999999"', "64M"]),
                ([*perf, "--bytes", ""], ["--bytes: ", '""']),
                (["tune", "--output", "x", "--bytes", ""], ["--bytes: ", '""']),
                (["explain", "all_reduce", "--bytes", ""],
                 ["--bytes: ", '""']),
                ([*perf, "--check=maybe"], ["--check takes no value"]),
                ([*perf, "--check=false"], ["--check takes no value"]),
                ([*perf, "--json=5"], ["--json takes no value"]),
                ([*perf, "--insecure=0"], ["--insecure takes no value"]),
                ([*run, "--watch=false"], ["--watch takes no value"])]:
            with self.subTest(" ".join(args)):
                line = self.fail_with(2, *args)
                for word in words:
                    self.assertIn(word, line)
        self.assert_nothing_written()

    def test_help_teaches(self):
        for args in PAGES:
            text = self.succeed(*args, "--help")
            self.assertIn("Examples:\n  tutti ", text)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_examples_of_the_help_are_right(self):
        self.save(arrays_of(4, 4), "grads")
        self.save(arrays_of(8, 4), "x")
        np.save(self.root / "weights.npy", arrays_of(1, 4)[0])
        for name in "abc":
            np.save(self.root / f"{name}.npy", arrays_of(1, 4)[0])
        (self.root / "cluster.json").write_text(json.dumps(
            {"links": [{"name": "all", "latency_us": 1, "gb_per_s": 10}]}))
        # As they stand, and quicker where they leave that open.
        quicker = {"verify": ["--max-ranks 5"],
                   "perf": ["--iterations 1", "--warmup 0", "--max-bytes 1M"],
                   "tune": ["--rounds 1", "--iterations 1", "--max-bytes 64"]}
        num_examples = 0
        for page in PAGES:
            for example in re.findall(r"^  (tutti .*)$",
                                      self.succeed(*page, "--help"),
                                      re.MULTILINE):
                if example.split()[1] in ("launch", "worker"):
                    continue  # Several processes: launch_test.py.
                options = [option
                           for option in quicker.get(example.split()[1], [])
                           if option.split()[0] not in example]
                if "barrier" in example:
                    options.remove("--max-bytes 1M")
                result = subprocess.run(
                    ["bash", "-c", " ".join(
                        [example.replace("tutti", TUTTI, 1), *options])],
                    text=True, cwd=self.root, capture_output=True, check=False)
                self.assertEqual(result.returncode, 0, (example, result))
                num_examples += 1
        self.assertGreaterEqual(num_examples, 30)

    def test_descriptors_that_are_closed_get_nothing_of_it(self):
        pattern = self.save([np.ones(4, np.float32)] * 2)
        for closed in ["<&-", "<&- >&-", "<&- >&- 2>&-", ">&-"]:
            with self.subTest(closed):
                result = subprocess.run(
                    ["bash", "-c", f'exec "$0" "$@" {closed}', TUTTI, "run",
                     "all_reduce", "--input", pattern, "--output",
                     f"out{len(closed)}", "--watch"],
                    text=True, cwd=self.root, capture_output=True, check=False)
                # What cannot be printed is an error like any other.
                self.assertEqual(result.returncode, int(">&-" in closed), result)

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"\Atutti \d+\.\d+\.\d+\n\Z")


class PerfTest(ToolTest):

    def measure(self, *args):
        return json.loads(self.succeed("perf", *args, "--json", "--iterations",
                                       3, "--warmup", 1))

    def test_every_collective_is_right(self):
        for collective in ["all_reduce", "all_gather", "reduce_scatter",
                           "broadcast", "all_to_all", "permute", "reduce",
                           "gather", "scatter"]:
            for extra in [[], ["--in-place"], ["--hot", "--tasks", 2]]:
                with self.subTest(f"{collective} {extra}"):
                    rows = self.measure(collective, "--devices", 4, "--check",
                                        "--algorithm", "all", "--max-bytes",
                                        "1M", "--factor", 512, *extra)
                    self.assertTrue(rows)
                    for row in rows:
                        self.assertEqual(list(row), ROW_KEYS)
                        self.assertEqual(row["wrong"], 0, row)
                        self.assertEqual(row["collective"], collective)
                        self.assertGreaterEqual(row["p99_us"], row["p50_us"])

    def test_a_barrier_is_measured(self):
        for extra in [[], ["--tasks", 2]]:
            row, = self.measure("barrier", "--devices", 4, "--algorithm",
                                "Barrier", *extra)
            self.assertEqual(row["collective"], "barrier")
            self.assertEqual((row["bytes"], row["dtype"], row["wrong"]),
                             (0, None, None))
            self.assertGreaterEqual(row["p99_us"], row["p50_us"])

    def test_a_barrier_takes_no_option_that_speaks_of_data(self):
        for option in [["--min-bytes", 4], ["--max-bytes", "1K"], ["--check"],
                       ["--factor", 2], ["--dtype", "int8"], ["--seed", 2],
                       ["--in-place"], ["--hot"]]:
            self.assertIn(f"{option[0]} does not go with barrier",
                          self.fail_with(2, "perf", "barrier", *option))

    def test_every_dtype_is_right(self):
        reductions = ["sum", "avg", "prod", "min"]
        for i, dtype in enumerate(DTYPES + ["bfloat16"]):
            for reduction in ["sum", reductions[i % 3 + 1]]:
                with self.subTest(f"{dtype} {reduction}"):
                    rows = self.measure(
                        "all_reduce", "--devices", 5, "--check", "--dtype",
                        dtype, "--reduction", reduction, "--min-bytes", "64K",
                        "--max-bytes", "64K")
                    self.assertEqual([row["wrong"] for row in rows], [0])

    def test_rows_hold_what_was_asked_for(self):
        rows = self.measure("all_gather", "--devices", 3, "--min-bytes", 4,
                            "--max-bytes", "1K", "--factor", 4, "--dtype",
                            "float64")
        # Multiples of three elements of eight bytes; 4 to 16 bytes are one row.
        self.assertEqual([row["bytes"] for row in rows], [24, 48, 240, 1008])
        self.assertEqual([row["count"] for row in rows], [3, 6, 30, 126])
        for row in rows:
            self.assertEqual(row["dtype"], "float64")
            self.assertIsNone(row["reduction"])
            self.assertIsNone(row["wrong"])
            self.assertAlmostEqual(row["algbw"],
                                   row["bytes"] / row["p50_us"] / 1e3)
            self.assertAlmostEqual(row["busbw"], row["algbw"] * 2 / 3)
            self.assertGreater(row["limit_share"], 0)

    def test_named_algorithms_have_a_row_each(self):
        rows = self.measure("all_reduce", "--devices", 2, "--min-bytes", 4,
                            "--max-bytes", 4, "--algorithm",
                            "RingReduce,RingReduce")
        self.assertEqual([row["algorithm"] for row in rows], ["RingReduce"] * 2)

    def test_of_one_size_the_faster_row_is_nearer_to_the_limit(self):
        rows = self.measure("all_reduce", "--devices", 4, "--algorithm", "all",
                            "--min-bytes", 4, "--max-bytes", "256K", "--factor",
                            16)
        for row in rows:
            for other in rows:
                if row["bytes"] == other["bytes"]:
                    self.assertEqual(row["p50_us"] < other["p50_us"],
                                     row["limit_share"] > other["limit_share"],
                                     (row, other))

    def test_the_librarys_choice_has_a_name(self):
        known = {i["name"] for i in json.loads(
            self.succeed("info", "--json"))["algorithms"]}
        for row in self.measure("all_reduce", "--devices", 2, "--max-bytes",
                                4):
            self.assertIn(row["algorithm"], known)

    def test_one_device(self):
        rows = self.measure("all_reduce", "--devices", 1, "--check",
                            "--max-bytes", "1K")
        self.assertEqual([row["wrong"] for row in rows], [0] * 5)
        self.assertEqual({row["busbw"] for row in rows}, {0.0})

    def test_the_table_has_the_same_rows(self):
        lines = self.succeed("perf", "barrier", "--devices", 4, "--iterations",
                             2).splitlines()
        self.assertEqual(len(lines), 2)
        for title in ["bytes", "count", "p50 [us]", "busbw [GB/s]", "limit [%]"]:
            self.assertIn(title, lines[0])
        self.assertEqual(lines[1].split()[:4], ["0", "0", "-", "-"])

    def test_more_memory_than_there_is(self):
        # Before the first row, though only the last has not enough.
        result = self.run_tool("perf", "all_reduce", "--max-bytes", "1024G")
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"\Atutti: buffers for all_reduce of "
                         r"\w+ bytes on 8 ranks take \w+ bytes, more than the "
                         r"memory that is available, \w+\n\Z")


class InfoTest(ToolTest):

    def test_text(self):
        text = self.succeed("info")
        for word in ["tutti 0.", "compiler", "processors", "RingReduce",
                     "HierarchicalTreeBroadcast", "all_to_all"]:
            self.assertIn(word, text)

    def test_json(self):
        info = json.loads(self.succeed("info", "--json"))
        collectives = set()
        for algorithm in info["algorithms"]:
            self.assertTrue(algorithm["summary"], algorithm)
            collectives.update(algorithm["collectives"])
        self.assertEqual(len(collectives), 10)


class ExplainTest(ToolTest):

    def explain(self, *args):
        return json.loads(self.succeed("explain", *args, "--json"))

    def test_explains_what_the_library_chooses(self):
        for collective in ["all_reduce", "all_gather", "reduce_scatter",
                           "broadcast", "all_to_all", "permute", "barrier",
                           "reduce", "gather", "scatter"]:
            size = [] if collective == "barrier" else ["--bytes", "64K"]
            sizes = [] if collective == "barrier" else [
                "--min-bytes", "64K", "--max-bytes", "64K"]
            with self.subTest(collective):
                told = self.explain(collective, "--layout", "2x3",
                                    "--one-process", *size)
                row, = json.loads(self.succeed(
                    "perf", collective, "--devices", 6, "--tasks", 2,
                    "--iterations", 1, "--warmup", 0, "--json", *sizes))
                for key in ["collective", "bytes", "count", "dtype",
                            "reduction"]:
                    self.assertEqual(told[key], row[key])
                self.assertEqual(told["chosen"], row["algorithm"])

    def test_the_help_says_what_messages_cost(self):
        text = " ".join(self.succeed("explain", "--help").split())
        for extra, words in [
                ([], "{latency:g} us + bytes / {bandwidth:g} GB/s between "
                 "processes,"),
                (["--mpi"], "{latency:g} us + bytes / {bandwidth:g} GB/s and "
                 "{gap:g} us.")]:
            told = self.explain("all_reduce", "--layout", "2x1", *extra)
            self.assertIn(words.format(latency=told["process_latency_us"],
                                       bandwidth=told["process_bandwidth"],
                                       gap=told["process_gap_us"]), text)

    def test_numbers_are_decimal(self):
        for text, number in [("010", 10), ("08", 8)]:
            told = self.explain("all_reduce", "--layout", "16x1", "--mpi",
                                "--processors", text)
            self.assertEqual(told["processors"], number)

    def test_a_name_that_is_no_utf8_spoils_no_json(self):
        rules = self.root / os.fsdecode(b"r\xe8gles.json")
        rules.write_text(json.dumps({"version": 1, "rules": [
            {"collective": "all_reduce", "algorithm": "RingReduce"}]}))
        told = self.explain("all_reduce", "--rules", rules)
        self.assertEqual(told["chosen"], "RingReduce")

    def test_the_cheapest_come_first(self):
        told = self.explain("all_reduce", "--layout", "4x2")
        known = json.loads(self.succeed("info", "--json"))["algorithms"]
        self.assertEqual({one["name"] for one in told["candidates"]},
                         {one["name"] for one in known})
        able = [one for one in told["candidates"] if one["ruled_out"] is None]
        self.assertEqual(told["candidates"][:len(able)], able)
        self.assertEqual(told["chosen"], able[0]["name"])
        times = [one["predicted_us"] for one in able]
        self.assertEqual(times, sorted(times))

    def test_processes_rule_out_what_needs_one(self):
        text = self.succeed("explain", "all_reduce", "--layout", "4x2")
        self.assertIn("all_reduce sum of 1048576 bytes (262144 float32) on 4x2, "
                      "4 processes\n", text)
        self.assertRegex(
            text, r"\nLocalReduce +-  needs all members in one process\n")
        text = self.succeed("explain", "all_reduce", "--layout", "4x2",
                            "--one-process")
        self.assertRegex(text, r"\nLocalReduce +\d+\.\d  chosen\n")

    def test_a_named_one_can_serve_or_not(self):
        self.assertRegex(
            self.succeed("explain", "all_reduce", "--algorithm", "TreeReduce"),
            r"\nTreeReduce +\d+\.\d  chosen\n")
        for name, why in [("LocalReduce", "needs all members in one process"),
                          ("RingGather", "does not do all_reduce")]:
            result = self.run_tool("explain", "all_reduce", "--layout", "2x1",
                                   "--algorithm", name)
            self.assertEqual(result.returncode, 1)
            self.assertNotIn("chosen", result.stdout)
            self.assertEqual(result.stderr, f"tutti: {name} {why}; these can "
                             "serve: DoubleTreeReduce, "
                             "HierarchicalDoubleTreeReduce, "
                             "HierarchicalHalvingDoublingReduce, "
                             "HierarchicalRingReduce, LocalThenDoubleTree, "
                             "LocalThenRecursiveDoubling, "
                             "LocalThenRecursiveHalvingDoubling, LocalThenRing, "
                             "RecursiveDoublingReduce, "
                             "RecursiveHalvingDoublingReduce, RingReduce, "
                             "ShuffleReduce, ShuffleThenRecursiveHalvingDoubling, "
                             "ShuffleThenRing, ShuffleThenShuffle, TreeReduce\n")

    def test_a_barrier_takes_no_option_that_speaks_of_data(self):
        for option in [["--bytes", 4], ["--dtype", "int8"]]:
            self.assertIn(f"{option[0]} does not go with barrier",
                          self.fail_with(2, "explain", "barrier", *option))


class ChoiceTest(ToolTest):
    """What runs is what the options of choice say."""

    def rules_for(self, algorithm):
        path = self.root / "rules.json"
        path.write_text(json.dumps({"version": 1, "rules": [
            {"collective": "all_reduce", "algorithm": algorithm}]}))
        return path

    def bits(self, *args, **kwargs):
        """An all-reduce whose bits depend on the order of the additions."""
        shutil.rmtree(self.root / "out", ignore_errors=True)
        arrays = [np.full(4, value, "float32") for value in [1e8, 3, -1e8, 5]]
        result = self.run_tool("run", "all_reduce", "--input",
                               self.save(arrays), "--output", "out", *args,
                               **kwargs)
        self.assertEqual(result.returncode, 0, result)
        return self.load()[0].tobytes()

    def test_run_takes_rules(self):
        ring = self.bits("--algorithm", "RingReduce")
        self.assertNotEqual(ring, self.bits())
        rules = self.rules_for("RingReduce")
        self.assertEqual(ring, self.bits("--rules", rules))
        self.assertEqual(
            ring, self.bits(env={**os.environ, "TUTTI_RULES": str(rules)}))
        self.assertEqual(self.bits(), self.bits("--rules", rules, "--algorithm",
                                                "LocalReduce"))

    def test_perf_takes_rules(self):
        args = ["perf", "all_reduce", "--devices", 2, "--max-bytes", 4,
                "--iterations", 1, "--json"]
        rules = self.rules_for("TreeReduce")
        other = {**os.environ, "TUTTI_RULES": str(rules)}
        for told, algorithm in [
                (self.run_tool(*args), "LocalReduce"),
                (self.run_tool(*args, "--rules", rules), "TreeReduce"),
                (self.run_tool(*args, env=other), "TreeReduce"),
                (self.run_tool(*args, "--rules", rules, "--algorithm",
                               "RingReduce"), "RingReduce")]:
            row, = json.loads(told.stdout)
            self.assertEqual(row["algorithm"], algorithm)

    def test_a_class_of_same_bits_is_kept_or_refused(self):
        rank_order = ["--determinism", "by_rank_order"]
        pattern = self.save(arrays_of(4, 4))
        for told in [
                self.fail_with(1, "perf", "all_reduce", "--max-bytes", 4,
                               "--algorithm", "RingReduce", *rank_order),
                self.fail_with(1, "run", "all_reduce", "--input", pattern,
                               "--output", "out", "--algorithm", "RingReduce",
                               *rank_order)]:
            self.assertIn("RingReduce", told)
            self.assertIn("by rank order", told)
        self.assert_nothing_written()


class VerifyTest(ToolTest):

    def test_proves_every_schedule(self):
        rows = json.loads(self.succeed("verify", "--max-ranks", 5, "--json"))
        schedules = [row for row in rows if row["is_schedule"]]
        self.assertGreaterEqual(len(schedules), 10)
        for row in schedules:
            self.assertEqual(row["failed"], 0)
            self.assertIsNone(row["first_failure"])
            self.assertGreater(row["cases"], 0)
            self.assertEqual(row["max_ranks"], 5)

    def test_proves_the_named_ones(self):
        lines = self.succeed("verify", "RingReduce", "PairwiseAllToAll",
                             "--max-ranks", 3).splitlines()
        self.assertEqual([line.split()[0] for line in lines],
                         ["name", "RingReduce", "PairwiseAllToAll"])
        self.assertRegex(lines[1], r"RingReduce +1\.\.3 +\d+ +0 +ok")

    def test_says_how_many_sizes_there_were(self):
        self.assertRegex(
            self.succeed("verify", "Barrier", "--max-ranks", 1000),
            r"Barrier +1\.\.64 \+ 11 up to 1000 +\d+ +0 +ok")


SVG = "{http://www.w3.org/2000/svg}"


class ScheduleTest(ToolTest):

    def schedules(self):
        info = json.loads(self.succeed("info", "--json"))
        return [(one["name"], collective) for one in info["algorithms"]
                if one["is_schedule"] for collective in one["collectives"]]

    def write(self, name, option, *args):
        """What is in the file that the tool writes."""
        line = self.succeed("schedule", name, *args, option, "out/file")
        self.assertRegex(line, rf"\A{name}: \w+ on [^\n]*: wrote out/file\n\Z")
        self.assertEqual(os.listdir(self.root / "out"), ["file"])
        return (self.root / "out/file").read_text("utf-8")

    def test_text_of_every_schedule(self):
        for name, collective in self.schedules():
            with self.subTest(f"{name}, {collective}"):
                text = self.succeed("schedule", name, "--collective",
                                    collective, "--layout", "2x3")
                self.assertTrue(text.startswith(f"{name}: {collective} on 2x3"))
                self.assertEqual(re.findall(r"^rank (\d+)$", text, re.MULTILINE),
                                 list("012345"))
                self.assertEqual(text.count("send "), text.count("recv "))

    def assert_is_picture(self, text, num_sends):
        """Valid, self-contained, all inside, each arrow labelled."""
        svg = xml.etree.ElementTree.fromstring(text)
        self.assertEqual(svg.tag, SVG + "svg")
        width, height = (float(svg.get(key)) for key in ["width", "height"])
        self.assertEqual(svg.get("viewBox"), f"0 0 {width:.0f} {height:.0f}")
        self.assertTrue(svg.find(SVG + "title").text)
        for tag in ["script", "image", "foreignObject", "a", "use"]:
            self.assertFalse(list(svg.iter(SVG + tag)))
        for element in svg.iter():
            for key, limit in [("x", width), ("x1", width), ("x2", width),
                               ("cx", width), ("y", height), ("y1", height),
                               ("y2", height), ("cy", height)]:
                if element.get(key) is not None:
                    self.assertGreaterEqual(float(element.get(key)), 0)
                    self.assertLessEqual(float(element.get(key)), limit)
        arrows = list(svg.iter(SVG + "g"))
        self.assertEqual(sum(len(arrow.find(SVG + "title").text.splitlines())
                             for arrow in arrows), num_sends)
        self.assert_apart(arrows)

    def assert_apart(self, arrows):
        """No two of them overlap; none is shorter than its label."""
        spans = {}
        for arrow in arrows:
            line = arrow.find(SVG + "line")
            ends = sorted([int(line.get("x1")), int(line.get("x2"))])
            self.assertLess(ends[0], ends[1])
            label = arrow.find(SVG + "text").text
            self.assertRegex(label, r"\A\d[\d,-]*…?\Z")
            self.assertLessEqual(7 * len(label), ends[1] - ends[0])
            spans.setdefault(line.get("y1"), []).append(ends)
        for line in spans.values():
            line.sort()
            for (_, end), (begin, _) in zip(line, line[1:]):
                self.assertLessEqual(end, begin)

    def test_picture_of_every_schedule(self):
        for name, collective in self.schedules():
            for layout in ["1x1", "1x2", "2x3", "4x4"]:
                with self.subTest(f"{name}, {collective}, {layout}"):
                    args = ["--collective", collective, "--layout", layout]
                    sends = self.succeed("schedule", name, *args).count("send ")
                    picture = self.write(name, "--svg", *args)
                    some = re.search(r"(\d+) subdivisions, offsets 0 "
                                     r"\(the first of (\d+)\)", picture)
                    if some:  # Each sends as much as any other.
                        sends = sends * int(some[1]) // int(some[2])
                    self.assert_is_picture(picture, sends)

    def test_the_largest_picture(self):
        self.assert_is_picture(self.write("PairwiseAllToAll", "--svg",
                                          "--ranks", 64), 64 * 63)

    def simulate(self, trace):
        """Runs a trace to its end; what each pair of ranks moves in bytes."""
        ranks = re.findall(r"^rank (\d+) {\n((?:l.*\n)*)}$", trace,
                           re.MULTILINE)
        self.assertEqual(int(re.match(r"num_ranks (\d+)\n", trace).group(1)),
                         len(ranks))
        operations, needs = {}, {}
        for rank, body in ranks:
            for line in body.splitlines():
                label, rest = re.fullmatch(r"(l\d+):? (.*)", line).groups()
                if rest.startswith("requires "):
                    self.assertIn((rank, rest.split()[1]), operations)
                    needs[rank, label].append((rank, rest.split()[1]))
                    continue
                operations[rank, label] = rest
                needs[rank, label] = []
        done, posted, moved = set(), {}, {}
        waiting = list(operations)
        while waiting:
            ready = [op for op in waiting if done.issuperset(needs[op])]
            before = len(done)
            for op in ready:
                if operations[op] == "calc 0":
                    done.add(op)
                    continue
                kind, size, peer, tag = re.fullmatch(
                    r"(send|recv) (\d+)b (?:to|from) (\d+) tag (\d+)",
                    operations[op]).groups()
                pair = (op[0], peer) if kind == "send" else (peer, op[0])
                other = posted.setdefault((*pair, tag, size), {})
                other[kind] = op
                if len(other) == 2 and not done.intersection(other.values()):
                    done.update(other.values())
                    moved[pair] = moved.get(pair, 0) + int(size)
            self.assertGreater(len(done), before, "deadlock")
            waiting = [op for op in waiting if op not in done]
        return moved

    def test_trace_of_every_schedule_runs_to_its_end(self):
        for name, collective in self.schedules():
            with self.subTest(f"{name}, {collective}"):
                self.simulate(self.write(name, "--goal", "--collective",
                                         collective, "--layout", "2x3"))

    def test_traces_move_what_the_algorithm_moves(self):
        moved = self.simulate(self.write("RingReduce", "--goal", "--ranks", 4,
                                         "--bytes", "64K"))
        # 2 (n - 1) / n of the buffer, from each rank to the next.
        self.assertEqual(moved, {(str(rank), str((rank + 1) % 4)): 3 << 15
                                 for rank in range(4)})

    def test_empty_chunks_are_not_sent(self):
        moved = self.simulate(self.write("RingReduce", "--goal", "--ranks", 4,
                                         "--bytes", 4))
        self.assertEqual(sum(moved.values()), 2 * 3 * 4)

    def test_many_ranks(self):
        text = self.succeed("schedule", "TreeReduce", "--ranks", 1024)
        self.assertEqual(text.count("send "), 2 * 1023)
        self.assertIn("num_ranks 1024\n", self.write("TreeReduce", "--goal",
                                                     "--ranks", 1024))

    def test_what_cannot_be_written(self):
        (self.root / "file").touch()
        for path in ["file/out.svg", "dir/"]:
            line = self.fail_with(1, "schedule", "Barrier", "--svg", path)
            self.assertIn(path.split("/")[0], line)

    def test_a_barrier_has_no_bytes(self):
        for command in ("schedule", "simulate"):
            self.succeed(command, "Barrier")
            self.assertIn("--bytes does not go with barrier", self.fail_with(
                2, command, "Barrier", "--bytes", 4))

    def test_why_what_a_library_sends_cannot_be_shown(self):
        info = json.loads(self.succeed("info", "--json"))
        names = {one["name"] for one in info["algorithms"]}
        if "LocalThenMpi" not in names:
            self.skipTest("built without MPI")
        for command in ("schedule", "simulate"):
            self.assertIn("LocalThenMpi has no steps to show: its messages are "
                          "those of MPI",
                          self.fail_with(2, command, "LocalThenMpi"))

    def test_what_cannot_be_shown(self):
        for args, words in [
                (["LocalReduce"], ["it is code, not a schedule",
                                   "RingReduce, RingReduceScatter"]),
                (["RingReduce", "--collective", "gather"],
                 ["RingReduce does not do gather; it does all_reduce"]),
                (["Scatter", "--ranks", "4", "--root", "4"],
                 ["--root 4 is no rank of a group of 4; wanted 0 to 3"]),
                (["RingReduce", "--root", "0"],
                 ["--root does not go with all_reduce"]),
                (["RingReduce", "--ranks", "1025"],
                 ['--ranks: "1025" is no whole number from 1 to 1024']),
                (["RingReduce", "--ranks", "65", "--svg", "out"],
                 ["--svg draws at most 64 ranks, not 65"])]:
            with self.subTest(" ".join(args)):
                line = self.fail_with(2, "schedule", *args)
                for word in words:
                    self.assertIn(word, line)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
