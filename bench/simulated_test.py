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


class CalibrateTest(unittest.TestCase):

    def test_finds_the_costs_where_which_part_counts_depends_on_the_others(self):
        wanted = {"a": 3, "b": 5}
        times_of = [
            lambda costs: max(2 * costs["a"], costs["b"]),
            lambda costs: max(costs["a"], costs["b"]) + costs["a"],
            lambda costs: max(4 * costs["a"], costs["a"] + costs["b"])]
        found = simulated.calibrate(
            times_of, [time_of(wanted) for time_of in times_of],
            start={"a": 1, "b": 9})
        for part, cost in wanted.items():
            self.assertAlmostEqual(found[part], cost, places=2)

    def test_changes_add_up_to_the_time(self):
        costs = {"a": 3, "b": 5}
        changes = simulated.rates_of_change(
            lambda costs: max(2 * costs["a"], costs["b"]) + costs["b"], costs)
        self.assertAlmostEqual(changes[0], 2)
        self.assertAlmostEqual(changes[1], 1)


class ClusterTest(unittest.TestCase):

    COSTS = {"latency": 3, "message": 0.5, "transfer": 1.024,
             "reduction": 0.512, "large transfer": 2.048, "large reduction": 0}

    def test_costs_become_speeds(self):
        cluster = simulated.calibrated(self.COSTS, is_large=False)
        self.assertEqual(cluster["links"][0]["latency_us"], 3)
        self.assertEqual(cluster["message_us"], 0.5)
        self.assertAlmostEqual(cluster["links"][0]["gb_per_s"], 1)
        self.assertAlmostEqual(cluster["reduced_gb_per_s"], 2 / 3)

    def test_large_messages_have_speeds_of_their_own(self):
        cluster = simulated.calibrated(self.COSTS, is_large=True)
        self.assertEqual(cluster["message_us"], 0.5)
        self.assertAlmostEqual(cluster["links"][0]["gb_per_s"], 0.5)
        self.assertAlmostEqual(cluster["reduced_gb_per_s"], 0.5)

    def test_large_messages_between_processes_have_a_time_of_their_own(self):
        self.assertEqual(
            simulated.guess("2x1").keys() - simulated.guess("1x2").keys(),
            {"large message"})
        cluster = simulated.calibrated({**self.COSTS, "large message": 7}, True)
        self.assertEqual(cluster["message_us"], 7)

    def test_all_tasks_share_the_processors_of_this_machine(self):
        cluster = simulated.calibrated(self.COSTS, is_large=False)
        self.assertEqual(cluster["host"],
                         {"processors": len(os.sched_getaffinity(0))})

    def test_what_costs_nothing_has_a_finite_speed(self):
        cluster = simulated.calibrated(dict.fromkeys(simulated.GUESS, 0), False)
        self.assertEqual(cluster["copied_gb_per_s"], simulated.NEVER)


class SimulatorTest(unittest.TestCase):

    def test_a_message_is_large_by_its_own_size(self):
        clusters = []

        class Recorded(simulated.Simulator):

            def simulate(self, algorithm, layout, num_bytes, cluster):
                clusters.append(cluster)
                return {"chunk_bytes": num_bytes / 2, "time_us": 1}

        simulator = Recorded("tutti", "folder")
        for layout, num_bytes, wanted in (
                ("1x2", 512 << 10, 1), ("1x2", 514 << 10, 0.5),
                ("2x1", 254 << 10, 1), ("2x1", 256 << 10, 0.5)):
            simulator.time_of("a", layout, num_bytes)(ClusterTest.COSTS)
            self.assertAlmostEqual(clusters[-1]["links"][0]["gb_per_s"], wanted)


class AgreementTest(unittest.TestCase):

    def test_a_quarter_more_or_less_agrees(self):
        self.assertEqual(simulated.num_near([0.74, 0.75, 1, 1.25, 1.26]), 3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
