#!/usr/bin/env python3
"""Which command lines are wrong, and what the help says.

usage: tutti_usage_test.py TUTTI
"""

import json
import os
import re
import subprocess

import numpy as np

from tutti_testing import arrays_of, main, ToolTest, TUTTI

# What has a --help.
PAGES = [[], ["run"], ["perf"], ["info"], ["explain"], ["tune"], ["verify"],
         ["schedule"], ["simulate"], ["launch"], ["worker"], ["certs"]]


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

    def test_without_a_gpu_the_reason_is_given(self):
        gpus = json.loads(self.succeed("info", "--json"))["gpus"]
        if gpus["names"]:
            self.skipTest("there is a GPU")
        for args in [("perf", "all_reduce"), ("run", "barrier", "--devices", 2),
                     ("tune", "--output", "rules.json")]:
            self.assertEqual(
                self.fail_with(1, *args, "--device", "gpu"),
                f"tutti: --device gpu: {gpus['why_none']}\n")
        self.assertIn('"tpu" is neither cpu nor gpu', self.fail_with(
            2, "perf", "all_reduce", "--device", "tpu"))

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

    def test_a_reader_that_goes_away_is_no_error(self):
        for args in [("info",), ("info", "--json"), ("verify", "RingReduce"),
                     ("perf", "all_reduce", "--devices", 2, "--max-bytes", 4)]:
            reader, writer = os.pipe()
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                result = self.run_tool(*args, stdout=out)
            self.assertEqual((result.returncode, result.stderr), (0, ""), args)

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as out:
            result = self.run_tool("info", stdout=out)
        self.assertEqual(result.returncode, 1)
        self.assertIn("standard output cannot be written", result.stderr)

    def test_version(self):
        self.assertRegex(self.succeed("--version"), r"\Atutti \d+\.\d+\.\d+\n\Z")


if __name__ == "__main__":
    main()
