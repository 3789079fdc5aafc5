#!/usr/bin/env python3
"""What `tutti perf` measures, and whether results are right.

usage: tutti_perf_test.py TUTTI
"""

import json

from tutti_testing import DTYPES, main, ToolTest

ROW_KEYS = ["collective", "bytes", "count", "dtype", "reduction", "algorithm",
            "p50_us", "p99_us", "algbw", "busbw", "wrong", "limit_share"]


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


if __name__ == "__main__":
    main()
