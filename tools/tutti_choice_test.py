#!/usr/bin/env python3
"""Which algorithms there are, which is chosen, and that it runs.

usage: tutti_choice_test.py TUTTI
"""

import json
import os
import re
import shutil

import numpy as np

from tutti_testing import arrays_of, main, ToolTest


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

    def test_lists_what_this_machine_cannot_run_with_the_reason(self):
        info = json.loads(self.succeed("info", "--json"))
        why_not = {algorithm["name"]: algorithm["why_not_here"]
                   for algorithm in info["algorithms"]}
        self.assertIsNone(why_not["RingReduce"])
        for extension, name in [("CUDA", "GpuLocalReduce"),
                                ("NCCL", "NcclReduce"), ("MPI", "MpiReduce")]:
            with self.subTest(name):
                self.assertEqual(name in why_not,
                                 extension in info["build"]["extensions"])
        if "MpiReduce" in why_not:
            self.assertIn("mpirun", why_not["MpiReduce"])
        text = self.succeed("info")
        for name, why in why_not.items():
            if why:
                self.assertRegex(text, rf"\n{name} +{re.escape(why)}\n")
        if not info["gpus"]["names"] and "GpuLocalReduce" in why_not:
            self.assertEqual(why_not["GpuLocalReduce"],
                             f"needs a GPU: {info['gpus']['why_none']}")


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

    def test_mpi_runs_small_collectives_unless_same_bits_are_wanted(self):
        build = json.loads(self.succeed("info", "--json"))["build"]
        for layout, name in [("4x1", "MpiReduce"), ("4x2", "LocalThenMpi")]:
            command = ["all_reduce", "--layout", layout, "--bytes", "4"]
            by_mpi = self.explain(*command, "--mpi")["chosen"]
            self.assertEqual(by_mpi == name, "MPI" in build["extensions"])
            for others in [["--mpi", "--determinism", "fixed_layout"], []]:
                self.assertNotIn("Mpi", self.explain(*command, *others)["chosen"])

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
            ring, self.bits(variables={"TUTTI_RULES": str(rules)}))
        self.assertEqual(self.bits(), self.bits("--rules", rules, "--algorithm",
                                                "LocalReduce"))

    def test_perf_takes_rules(self):
        args = ["perf", "all_reduce", "--devices", 2, "--max-bytes", 4,
                "--iterations", 1, "--json"]
        rules = self.rules_for("TreeReduce")
        variables = {"TUTTI_RULES": str(rules)}
        for told, algorithm in [
                (self.run_tool(*args), "LocalReduce"),
                (self.run_tool(*args, "--rules", rules), "TreeReduce"),
                (self.run_tool(*args, variables=variables), "TreeReduce"),
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


if __name__ == "__main__":
    main()
