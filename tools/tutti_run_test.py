#!/usr/bin/env python3
"""What `tutti run` makes of files is what NumPy says.

usage: tutti_run_test.py TUTTI
"""

import json
import shutil

import numpy as np

from tutti_testing import arrays_of, DTYPES, main, ToolTest


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
            if algorithm["device_types"] == ["GPU"]:
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


if __name__ == "__main__":
    main()
