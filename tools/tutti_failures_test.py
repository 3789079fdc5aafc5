#!/usr/bin/env python3
"""What fails does so in one line, and leaves nothing behind.

usage: tutti_failures_test.py TUTTI
"""

import os
import resource
import signal
import subprocess

import numpy as np

from tutti_testing import arrays_of, main, ToolTest, TUTTI


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
                (np.zeros(3, "complex64"), ["<c8", "bfloat16"]),
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
                result = self.run_tool(*args, stdout=write)
                os.close(write)
                self.assertEqual((result.returncode, result.stderr), (0, ""), args)
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


if __name__ == "__main__":
    main()
