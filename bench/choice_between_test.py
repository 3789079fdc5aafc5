#!/usr/bin/env python3
"""Tests how choice_between.py judges.

usage: choice_between_test.py CHOICE_BETWEEN
"""

import contextlib
import io
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[1])))
import choice_between
import tool_runs


# As `tutti schedule` prints them, of rank 0; what the other rank does is left
# out.
HALVING = """RecursiveHalvingReduceScatter: reduce_scatter on 2x1; 2 chunks

rank 0
    0.0  recv scratch[0].1 from 1, tag 0
    0.1  data[0] = input[0] (+) scratch[0].1, finish
    1.0  send input[1] to 1, tag 1
"""
RING = """RingReduceScatter: reduce_scatter on 2x1, offsets 0; 2 chunks

rank 0
    0.0  send input[1] to 1, tag 0
    1.0  recv scratch[0] from 1, tag 0
    1.1  data[0] = scratch[0] (+) input[0], finish
"""
DIRECT = """DirectReduceScatter: reduce_scatter on 2x1; 2 chunks

rank 0
    0.0  data[0] = input[0] (+) scratch[0].1, finish, after 1.0
    1.0  recv scratch[0].1 from 1, tag 0
    2.0  send input[1] to 1, tag 0
"""


class StepsTest(unittest.TestCase):

    def same(self, a, b):
        return choice_between.steps_of(a) == choice_between.steps_of(b)

    def test_lanes_tags_scratch_and_sides_make_no_other_steps(self):
        self.assertTrue(self.same(HALVING, RING))

    def test_a_reduction_right_after_its_receive_is_another(self):
        self.assertFalse(self.same(HALVING, DIRECT))
        self.assertTrue(self.same(DIRECT, DIRECT.replace("2.0", "3.0")))

    def test_another_step_chunk_peer_or_order_does(self):
        for old, new in [("send input[1] to 1, tag 0", "send input[0] to 1"),
                         ("send input[1] to 1", "send input[1] to 2"),
                         (", finish", ""),
                         ("2 chunks", "4 chunks"),
                         ("tag 0\n    1.0", "tag 0, after 1.1\n    1.0"),
                         ("    1.1  data", "    2.0  data")]:
            with self.subTest(new):
                self.assertIn(old, RING)
                self.assertFalse(self.same(RING, RING.replace(old, new)))


class JudgeTest(unittest.TestCase):

    @staticmethod
    def schedule_of(algorithm):
        return {"Ring": RING, "Halving": HALVING,
                "Tree": RING.replace("to 1", "to 2")}[algorithm]

    def test_names_the_fastest_and_how_much_longer_the_chosen_one_takes(self):
        times = {"Ring": 20.0, "Tree": 10.0, "Shuffle": 40.0}
        point = choice_between.judge(times, "Ring", self.schedule_of)
        self.assertEqual(point, ("Tree", 2, False))
        point = choice_between.judge(times, "Tree", self.schedule_of)
        self.assertEqual(point, ("Tree", 1, True))

    def test_a_point_is_near_within_a_tenth(self):
        near = [choice_between.Point("Tree", ratio, False).is_near()
                for ratio in [1, 1.1, 1.11, 2]]
        self.assertEqual(near, [True, True, False, False])

    def test_a_point_is_near_that_runs_the_steps_of_the_fastest(self):
        times = {"Ring": 20.0, "Tree": 12.0, "Halving": 10.0}
        point = choice_between.judge(times, "Ring", self.schedule_of)
        self.assertTrue(point.is_near())
        self.assertEqual(point.text(), "2.00 =")
        point = choice_between.judge(times, "Tree", self.schedule_of)
        self.assertFalse(point.is_near())
        self.assertEqual(point.text(), "1.20  ")

    def test_what_has_no_steps_has_the_same_as_nothing_else(self):
        times = {"LocalThen": 20.0, "Other": 12.0, "Tree": 10.0}
        def schedule_of(name):
            return None if name != "Tree" else self.schedule_of(name)
        for chosen in ["LocalThen", "Other"]:
            self.assertFalse(
                choice_between.judge(times, chosen, schedule_of).is_same)
        self.assertTrue(choice_between.judge(
            {"LocalThen": 1.0, "Other": 2.0}, "LocalThen", schedule_of).is_same)

    def test_the_verdict_says_how_many_are_near_by_their_steps_alone(self):
        points = [choice_between.Point("Tree", *point) for point in
                  [(1, True), (1.05, True), (1.5, True), (1.5, False)]]
        is_met, text = choice_between.verdict("2x1", points)
        self.assertFalse(is_met)
        self.assertEqual(
            text, "2x1: within 10% of the fastest for 2 of 4 points, the same "
            "steps as the fastest for 1 more: 3")


class ToolRunsTest(unittest.TestCase):

    def parse(self, *words):
        with contextlib.redirect_stderr(io.StringIO()) as self.err:
            return tool_runs.parse(["--tutti=tutti", *words], "choice_between",
                                   "", ["2x1"], "", rounds=2)

    def test_layouts_are_tasks_and_devices(self):
        self.assertEqual(self.parse("--layouts", "2x1,1x16").layouts,
                         ["2x1", "1x16"])
        for layouts in ["3+1", "foo", "1x", "0x2", "2x1,", "-1x2", "1x2x3"]:
            with self.subTest(layouts), self.assertRaises(SystemExit) as end:
                self.parse(f"--layouts={layouts}")
            self.assertEqual(end.exception.code, 2)
            self.assertIn("is no layout such as 2x4", self.err.getvalue())

    def test_all_ends_where_the_tool_fails(self):
        with self.assertRaisesRegex(SystemExit, "this failed: false 1"):
            tool_runs.json_of(["false", 1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
