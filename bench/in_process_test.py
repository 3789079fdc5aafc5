#!/usr/bin/env python3
"""Tests what in_process.py says of figures, and the processes it tells what to
do.

usage: in_process_test.py IN_PROCESS_AIMS
"""

import argparse
import contextlib
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[1])))
import in_process
import in_process_aims as aims
from comparison import MIB
from workers import LaunchedWorkers, WorkerError

# Its workers are threads, which answer "OK" and what they are asked.
LAUNCHER = """
import pathlib, sys, threading
def say(line):
    sys.stdout.write(line)
    sys.stdout.flush()
def work(path):
    with open(path) as jobs:
        say("READY fake\\n")
        for line in jobs:
            say("OK " + line)
workers = [threading.Thread(target=work, args=(path,))
           for path in pathlib.Path(sys.argv[1]).iterdir()]
for worker in workers:
    worker.start()
"""


class ResultsTest(unittest.TestCase):

    def results(self, **times):
        """Of 8 devices at 1 MiB, a time in each of two rounds."""
        return aims.Results({8: {MIB: {
            name.replace("_", " "): of_rounds
            for name, of_rounds in times.items()}}})

    def peer_verdict(self, results, start):
        verdict, = [one for one in aims.peers(results)
                    if one.aim.startswith(start)]
        return verdict

    def test_a_ratio_is_the_median_of_those_of_the_rounds(self):
        results = self.results(out_of_place=[1, 2, 4], copy=[1, 4, 16])
        self.assertEqual(results.ratio(8, MIB, [aims.COPY], aims.OUT_OF_PLACE),
                         2)

    def test_the_fastest_of_the_others_counts(self):
        results = aims.Results({8: {MIB: {
            aims.OUT_OF_PLACE: [1, 1], "Intel MPI": [9, 9],
            "Intel MPI 13": [5, 5], "TF": [7, 7]}}})
        verdict = self.peer_verdict(results,
                                    "the strongest peer's time, at 1 MiB")
        self.assertEqual(verdict.got, 5)
        self.assertTrue(verdict.is_met)

    def test_what_was_not_measured_has_no_verdict(self):
        self.assertEqual(aims.peers(self.results(out_of_place=[1, 1])), [])
        self.assertEqual(aims.limits(aims.Results({})), [])

    def test_the_worst_size_decides(self):
        results = aims.Results({8: {
            size: {aims.OUT_OF_PLACE: [time], aims.COPY: [0.95]}
            for size, time in [(16 * MIB, 1), (64 * MIB, 1.9)]}})
        verdict = aims.limits(results)[0]
        self.assertFalse(verdict.is_met)
        self.assertEqual((verdict.got, verdict.where), (0.5, "8 x 64 MiB"))
        self.assertAlmostEqual(verdict.missed_by(), 1.8)

    def test_one_piece_of_work_handed_over_misses_the_aim(self):
        for pieces, is_met in [(0, True), (1, False)]:
            results = aims.Results({8: {4: {
                aims.HANDED_OVER: [0, pieces * 1e-9, 0]}}})
            verdict, = aims.limits(results)
            self.assertEqual(verdict.is_met, is_met)
            self.assertAlmostEqual(verdict.got, pieces)
            str(verdict)  # There is no factor to nothing.

    def test_sixteen_bits_are_compared_by_bytes(self):
        times = {"float32": {MIB: [1, 1]}, "float16": {MIB: [2, 2]},
                 "bfloat16": {MIB: [1.1, 1.1]}}
        float16, bfloat16 = aims.halves(times)
        self.assertEqual((float16.got, float16.is_met), (0.5, False))
        self.assertTrue(bfloat16.is_met)

    def test_many_small_ones_move_fewer_bytes_than_the_large_one(self):
        together, of_many, _ = aims.many({
            aims.ONE: [1], aims.TOGETHER: [1], aims.MANY: [2],
            aims.MANY_BY_DEVICE: [2]})
        self.assertAlmostEqual(together.got, 1000 / 1024)
        self.assertAlmostEqual(of_many.got, 1000 / 2048)

    def test_a_prepared_one_is_shared_out_among_its_members(self):
        results = aims.Results({2: {4: {aims.SHARED: [200e-9]}},
                                8: {4: {aims.SHARED: [1600e-9]}}})
        of_two, of_eight = aims.prepared(results)
        self.assertAlmostEqual(of_two.got, 100)
        self.assertTrue(of_two.is_met)
        self.assertEqual((of_eight.where, of_eight.is_met), ("8 x 4 B", False))


class PeersTest(unittest.TestCase):

    def test_what_is_not_installed_is_left_out_with_the_reason(self):
        args = argparse.Namespace(open_mpi="", intel_mpi="", gloo="",
                                  tensorflow="")
        with contextlib.ExitStack() as stack:
            peers = in_process.Peers(args, stack, 8)
        self.assertEqual(peers.left_out, [
            "Open MPI, 8 members: libopenmpi-dev and openmpi-bin are not "
            "installed",
            "Intel MPI, 8 members: not in .",
            "Gloo, 8 members: libgloo-dev is not installed",
            "TensorFlow, 8 members: not in ."])
        self.assertEqual((peers.measures, peers.versions), ({}, {}))

    def test_one_that_does_not_start_is_left_out_and_the_others_go_on(self):
        args = argparse.Namespace(open_mpi="", intel_mpi="", tensorflow="",
                                  gloo="/no/such/worker")
        with contextlib.ExitStack() as stack:
            peers = in_process.Peers(args, stack, 2)
        self.assertEqual(len(peers.left_out), 4)
        self.assertRegex(peers.left_out[2], "^Gloo, 2 members: .*/no/such")


class LaunchedWorkersTest(unittest.TestCase):

    def launch(self, script, count):
        return LaunchedWorkers([sys.executable, "-c", script], count)

    def test_each_worker_is_asked_and_heard(self):
        workers = self.launch(LAUNCHER, 3)
        self.addCleanup(workers.close)
        self.assertEqual(workers.version, "fake")
        self.assertEqual(workers.ask("1 2"), ["1 2"] * 3)

    def test_workers_that_take_turns_are_not_said_to_be_slower_than_both(self):
        workers = self.launch(LAUNCHER.replace('"OK " + line', """(
            "OK 1000 9000 1000\\n" if path.name == "0" else
            "OK 9000 1000 8000\\n")"""), 2)
        self.addCleanup(workers.close)
        self.assertAlmostEqual(workers.median("any", 4, 0, 3), 9e-6)
        self.assertAlmostEqual(workers.median_or_mean("any", 4, 0, 3), 6e-6)

    def test_a_launcher_that_ends_is_an_error_with_its_last_words(self):
        with self.assertRaisesRegex(WorkerError, "no such host"):
            self.launch("import sys; sys.exit('no such host')", 2)

    def test_nothing_is_left_in_the_folder_for_files(self):
        with tempfile.TemporaryDirectory() as folder:
            before, tempfile.tempdir = tempfile.tempdir, folder
            try:
                self.launch(LAUNCHER, 2).close()
            finally:
                tempfile.tempdir = before
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
