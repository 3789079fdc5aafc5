#!/usr/bin/env python3
"""Tests how simulated.py calibrates and counts.

usage: simulated_test.py SIMULATED
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[1])))
import simulated


class FitTest(unittest.TestCase):

    def test_finds_what_the_times_were_made_of(self):
        rows = [[1, 2, 0], [3, 1, 64], [2, 9, 1024], [7, 4, 16]]
        wanted = [5, 0.5, 0.25]
        times = [sum(a * b for a, b in zip(row, wanted)) for row in rows]
        for found, one in zip(simulated.fit(rows, times), wanted):
            self.assertAlmostEqual(found, one, places=3)

    def test_no_cost_is_negative(self):
        self.assertEqual(simulated.fit([[1, 1], [2, 1]], [1, 3])[1], 0)

    def test_a_part_that_takes_no_time_anywhere_costs_nothing(self):
        self.assertEqual(simulated.fit([[0, 1], [0, 2]], [3, 6]), [0, 3])

    def test_short_times_count_as_much_as_long_ones(self):
        # Nothing fits both; relative errors do not depend on the size.
        for scale in (1, 1000):
            cost, = simulated.fit([[1], [scale]], [1, 2 * scale])
            self.assertAlmostEqual(cost, 1.2)


class ClusterTest(unittest.TestCase):

    def test_costs_become_speeds(self):
        cluster = simulated.calibrated(
            {"latency": 3, "message": 0.5, "transfer": 1.024,
             "reduction": 0.512})
        self.assertEqual(cluster["links"][0]["latency_us"], 3)
        self.assertEqual(cluster["message_us"], 0.5)
        self.assertAlmostEqual(cluster["links"][0]["gb_per_s"], 1)
        self.assertAlmostEqual(cluster["reduced_gb_per_s"], 2)

    def test_what_costs_nothing_has_a_finite_speed(self):
        cluster = simulated.calibrated(dict.fromkeys(simulated.PARTS, 0))
        self.assertEqual(cluster["copied_gb_per_s"], simulated.NEVER)


class AgreementTest(unittest.TestCase):

    def test_a_quarter_more_or_less_agrees(self):
        self.assertEqual(simulated.num_near([0.74, 0.75, 1, 1.25, 1.26]), 3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
