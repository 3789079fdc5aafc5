#!/usr/bin/env python3
"""What the tool shows and proves of schedules.

usage: tutti_schedules_test.py TUTTI
"""

import json
import os
import re
import xml.etree.ElementTree

from tutti_testing import main, ToolTest

SVG = "{http://www.w3.org/2000/svg}"


class VerifyTest(ToolTest):

    def test_proves_every_schedule(self):
        rows = json.loads(self.succeed("verify", "--max-ranks", 5, "--json"))
        schedules = [row for row in rows if row["is_schedule"]]
        self.assertGreaterEqual(len(schedules), 10)
        for row in schedules:
            self.assertEqual(row["failed"], 0)
            self.assertIsNone(row["first_failure"])
            self.assertGreater(row["cases"], 0)
            self.assertEqual(row["max_ranks"], 5)

    def test_proves_the_named_ones(self):
        lines = self.succeed("verify", "RingReduce", "PairwiseAllToAll",
                             "--max-ranks", 3).splitlines()
        self.assertEqual([line.split()[0] for line in lines],
                         ["name", "RingReduce", "PairwiseAllToAll"])
        self.assertRegex(lines[1], r"RingReduce +1\.\.3 +\d+ +0 +ok")

    def test_says_how_many_sizes_there_were(self):
        self.assertRegex(
            self.succeed("verify", "Barrier", "--max-ranks", 1000),
            r"Barrier +1\.\.64 \+ 11 up to 1000 +\d+ +0 +ok")


class ScheduleTest(ToolTest):

    def schedules(self):
        info = json.loads(self.succeed("info", "--json"))
        return [(one["name"], collective) for one in info["algorithms"]
                if one["is_schedule"] for collective in one["collectives"]]

    def write(self, name, option, *args):
        """What is in the file that the tool writes."""
        line = self.succeed("schedule", name, *args, option, "out/file")
        self.assertRegex(line, rf"\A{name}: \w+ on [^\n]*: wrote out/file\n\Z")
        self.assertEqual(os.listdir(self.root / "out"), ["file"])
        return (self.root / "out/file").read_text("utf-8")

    def test_text_of_every_schedule(self):
        for name, collective in self.schedules():
            with self.subTest(f"{name}, {collective}"):
                text = self.succeed("schedule", name, "--collective",
                                    collective, "--layout", "2x3")
                self.assertTrue(text.startswith(f"{name}: {collective} on 2x3"))
                self.assertEqual(re.findall(r"^rank (\d+)$", text, re.MULTILINE),
                                 list("012345"))
                self.assertEqual(text.count("send "), text.count("recv "))

    def assert_is_picture(self, text, num_sends):
        """Valid, self-contained, all inside, each arrow labelled."""
        svg = xml.etree.ElementTree.fromstring(text)
        self.assertEqual(svg.tag, SVG + "svg")
        width, height = (float(svg.get(key)) for key in ["width", "height"])
        self.assertEqual(svg.get("viewBox"), f"0 0 {width:.0f} {height:.0f}")
        self.assertTrue(svg.find(SVG + "title").text)
        for tag in ["script", "image", "foreignObject", "a", "use"]:
            self.assertFalse(list(svg.iter(SVG + tag)))
        for element in svg.iter():
            for key, limit in [("x", width), ("x1", width), ("x2", width),
                               ("cx", width), ("y", height), ("y1", height),
                               ("y2", height), ("cy", height)]:
                if element.get(key) is not None:
                    self.assertGreaterEqual(float(element.get(key)), 0)
                    self.assertLessEqual(float(element.get(key)), limit)
        arrows = list(svg.iter(SVG + "g"))
        self.assertEqual(sum(len(arrow.find(SVG + "title").text.splitlines())
                             for arrow in arrows), num_sends)
        self.assert_apart(arrows)

    def assert_apart(self, arrows):
        """No two of them overlap; none is shorter than its label."""
        spans = {}
        for arrow in arrows:
            line = arrow.find(SVG + "line")
            ends = sorted([int(line.get("x1")), int(line.get("x2"))])
            self.assertLess(ends[0], ends[1])
            label = arrow.find(SVG + "text").text
            self.assertRegex(label, r"\A\d[\d,-]*…?\Z")
            self.assertLessEqual(7 * len(label), ends[1] - ends[0])
            spans.setdefault(line.get("y1"), []).append(ends)
        for line in spans.values():
            line.sort()
            for (_, end), (begin, _) in zip(line, line[1:]):
                self.assertLessEqual(end, begin)

    def test_picture_of_every_schedule(self):
        for name, collective in self.schedules():
            for layout in ["1x1", "1x2", "2x3", "4x4"]:
                with self.subTest(f"{name}, {collective}, {layout}"):
                    args = ["--collective", collective, "--layout", layout]
                    sends = self.succeed("schedule", name, *args).count("send ")
                    picture = self.write(name, "--svg", *args)
                    some = re.search(r"(\d+) subdivisions, offsets 0 "
                                     r"\(the first of (\d+)\)", picture)
                    if some:  # Each sends as much as any other.
                        sends = sends * int(some[1]) // int(some[2])
                    self.assert_is_picture(picture, sends)

    def test_the_largest_picture(self):
        self.assert_is_picture(self.write("PairwiseAllToAll", "--svg",
                                          "--ranks", 64), 64 * 63)

    def simulate(self, trace):
        """Runs a trace to its end; what each pair of ranks moves in bytes."""
        ranks = re.findall(r"^rank (\d+) {\n((?:l.*\n)*)}$", trace,
                           re.MULTILINE)
        self.assertEqual(int(re.match(r"num_ranks (\d+)\n", trace).group(1)),
                         len(ranks))
        operations, needs = {}, {}
        for rank, body in ranks:
            for line in body.splitlines():
                label, rest = re.fullmatch(r"(l\d+):? (.*)", line).groups()
                if rest.startswith("requires "):
                    self.assertIn((rank, rest.split()[1]), operations)
                    needs[rank, label].append((rank, rest.split()[1]))
                    continue
                operations[rank, label] = rest
                needs[rank, label] = []
        done, posted, moved = set(), {}, {}
        waiting = list(operations)
        while waiting:
            ready = [op for op in waiting if done.issuperset(needs[op])]
            before = len(done)
            for op in ready:
                if operations[op] == "calc 0":
                    done.add(op)
                    continue
                kind, size, peer, tag = re.fullmatch(
                    r"(send|recv) (\d+)b (?:to|from) (\d+) tag (\d+)",
                    operations[op]).groups()
                pair = (op[0], peer) if kind == "send" else (peer, op[0])
                other = posted.setdefault((*pair, tag, size), {})
                other[kind] = op
                if len(other) == 2 and not done.intersection(other.values()):
                    done.update(other.values())
                    moved[pair] = moved.get(pair, 0) + int(size)
            self.assertGreater(len(done), before, "deadlock")
            waiting = [op for op in waiting if op not in done]
        return moved

    def test_trace_of_every_schedule_runs_to_its_end(self):
        for name, collective in self.schedules():
            with self.subTest(f"{name}, {collective}"):
                self.simulate(self.write(name, "--goal", "--collective",
                                         collective, "--layout", "2x3"))

    def test_traces_move_what_the_algorithm_moves(self):
        moved = self.simulate(self.write("RingReduce", "--goal", "--ranks", 4,
                                         "--bytes", "64K"))
        # 2 (n - 1) / n of the buffer, from each rank to the next.
        self.assertEqual(moved, {(str(rank), str((rank + 1) % 4)): 3 << 15
                                 for rank in range(4)})

    def test_empty_chunks_are_not_sent(self):
        moved = self.simulate(self.write("RingReduce", "--goal", "--ranks", 4,
                                         "--bytes", 4))
        self.assertEqual(sum(moved.values()), 2 * 3 * 4)

    def test_many_ranks(self):
        text = self.succeed("schedule", "TreeReduce", "--ranks", 1024)
        self.assertEqual(text.count("send "), 2 * 1023)
        self.assertIn("num_ranks 1024\n", self.write("TreeReduce", "--goal",
                                                     "--ranks", 1024))

    def test_what_cannot_be_written(self):
        (self.root / "file").touch()
        for path in ["file/out.svg", "dir/"]:
            line = self.fail_with(1, "schedule", "Barrier", "--svg", path)
            self.assertIn(path.split("/")[0], line)

    def test_a_barrier_has_no_bytes(self):
        for command in ("schedule", "simulate"):
            self.succeed(command, "Barrier")
            self.assertIn("--bytes does not go with barrier", self.fail_with(
                2, command, "Barrier", "--bytes", 4))

    def test_why_what_a_library_sends_cannot_be_shown(self):
        info = json.loads(self.succeed("info", "--json"))
        names = {one["name"] for one in info["algorithms"]}
        if "LocalThenMpi" not in names:
            self.skipTest("built without MPI")
        for command in ("schedule", "simulate"):
            self.assertIn("LocalThenMpi has no steps to show: its messages are "
                          "those of MPI",
                          self.fail_with(2, command, "LocalThenMpi"))

    def test_what_cannot_be_shown(self):
        for args, words in [
                (["LocalReduce"], ["it is code, not a schedule",
                                   "RingReduce, RingReduceScatter"]),
                (["RingReduce", "--collective", "gather"],
                 ["RingReduce does not do gather; it does all_reduce"]),
                (["Scatter", "--ranks", "4", "--root", "4"],
                 ["--root 4 is no rank of a group of 4; wanted 0 to 3"]),
                (["RingReduce", "--root", "0"],
                 ["--root does not go with all_reduce"]),
                (["RingReduce", "--ranks", "1025"],
                 ['--ranks: "1025" is no whole number from 1 to 1024']),
                (["RingReduce", "--ranks", "65", "--svg", "out"],
                 ["--svg draws at most 64 ranks, not 65"])]:
            with self.subTest(" ".join(args)):
                line = self.fail_with(2, "schedule", *args)
                for word in words:
                    self.assertIn(word, line)


if __name__ == "__main__":
    main()
