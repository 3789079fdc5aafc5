#!/usr/bin/env python3
"""Tests how choice_between.py judges.

usage: choice_between_test.py CHOICE_BETWEEN
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[1])))
import choice_between


class JudgeTest(unittest.TestCase):

    def test_names_the_fastest_and_how_much_longer_the_chosen_one_takes(self):
        times = {"Ring": 20.0, "Tree": 10.0, "Shuffle": 40.0}
        self.assertEqual(choice_between.judge(times, "Ring"), ("Tree", 2))
        self.assertEqual(choice_between.judge(times, "Tree"), ("Tree", 1))

    def test_a_point_is_near_within_a_tenth(self):
        self.assertEqual(choice_between.num_near([1, 1.1, 1.11, 2]), 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
