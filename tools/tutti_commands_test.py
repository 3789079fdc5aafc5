#!/usr/bin/env python3
"""What the commands make of files that NumPy wrote, choose, show and leave.

usage: tutti_commands_test.py TUTTI
"""

import json
import os
import re
import signal
import subprocess
import xml.etree.ElementTree

import numpy as np

from tutti_testing import arrays_of, DTYPES, main, ToolTest, TUTTI

SVG = "{http://www.w3.org/2000/svg}"


class RunTest(ToolTest):
    """`tutti run` does what NumPy says it does."""

    def test_all_reduce_of_every_dtype(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                arrays = arrays_of(4, (7, 3), dtype)
                total = np.sum(arrays, axis=0, dtype=dtype)
                self.assert_outputs(self.run_collective(arrays, "all_reduce"),
                                    [total] * 4)

    def test_every_reduction(self):
        arrays = arrays_of(3, 1001, "int32")
        for name, wanted in {
                "sum": sum(arrays), "prod": arrays[0] * arrays[1] * arrays[2],
                "min": np.minimum.reduce(arrays),
                "max": np.maximum.reduce(arrays),
                "avg": (sum(arrays) / 3).astype("int32"),
                "band": np.bitwise_and.reduce(arrays),
                "bor": np.bitwise_or.reduce(arrays),
                "bxor": np.bitwise_xor.reduce(arrays)}.items():
            with self.subTest(name):
                found = self.run_collective(arrays, "all_reduce", "--reduction",
                                            name)
                self.assert_outputs(found, [wanted] * 3)

    def test_every_collective(self):
        arrays = arrays_of(3, (6, 2))
        total, joined = sum(arrays), np.concatenate(arrays)
        for words, wanted in [
                ("all_gather", [joined] * 3),
                ("reduce_scatter", np.split(total, 3)),
                ("broadcast --root 2", [arrays[2]] * 3),
                ("scatter --root 1", np.split(arrays[1], 3)),
                ("all_to_all", [
                    np.concatenate([a[2 * rank:2 * rank + 2] for a in arrays])
                    for rank in range(3)]),
                ("permute --permutation 2,0,1", [arrays[i] for i in (1, 2, 0)]),
                ("reduce --root 1", {1: total}),
                ("gather --root 2", {2: joined}),
                ("scan", list(np.cumsum(arrays, axis=0))),
                ("exscan", {1: arrays[0], 2: arrays[0] + arrays[1]})]:
            with self.subTest(words):
                found = self.run_collective(arrays, *words.split())
                self.assert_outputs(found, wanted)
        self.assertEqual(self.succeed("run", "barrier", "--devices", 8),
                         "barrier on 8 ranks: done\n")

    def test_shapes_may_be_of_any_kind(self):
        for shape in [(), 0, (3, 0), (0, 3), 1]:
            with self.subTest(shape):
                arrays = [np.asarray(array) for array in arrays_of(2, shape)]
                total = np.asarray(arrays[0] + arrays[1], "float32")
                self.assert_outputs(self.run_collective(arrays, "all_reduce"),
                                    [total] * 2)
        alone = arrays_of(1, 5)
        self.assert_outputs(self.run_collective(alone, "all_reduce"), alone)
        uneven = [array[:rank] for rank, array in enumerate(arrays_of(4, (5, 2)))]
        self.assert_outputs(self.run_collective(uneven, "all_gather"),
                            [np.concatenate(uneven)] * 4)
        self.assert_outputs(
            self.run_collective(uneven, "gather", "--root", 3),
            {3: np.concatenate(uneven)})
        arrays = arrays_of(4, (6, 2))
        self.assert_outputs(
            self.run_collective(arrays, "reduce_scatter", "--uneven"),
            np.array_split(sum(arrays), 4))
        self.assert_outputs(
            self.run_collective(arrays, "scatter", "--root", 1, "--uneven"),
            np.array_split(arrays[1], 4))

    def test_bool_is_moved(self):
        arrays = [array > 4 for array in arrays_of(2, 5, "int8")]
        self.assert_outputs(self.run_collective(arrays, "all_gather"),
                            [np.concatenate(arrays)] * 2)

    def test_any_order_of_elements_and_bytes(self):
        arrays = arrays_of(3, (4, 5, 6), "int16")
        for descr, order in [("<i2", "F"), (">i2", "C"), (">i2", "F")]:
            with self.subTest(descr + order):
                stored = [np.array(array, descr, order=order) for array in arrays]
                self.assert_outputs(self.run_collective(stored, "all_reduce"),
                                    [sum(arrays)] * 3)
        # Each rank may have an order of its own.
        mixed = [np.asfortranarray(arrays[0]), arrays[1].astype(">i2"), arrays[2]]
        self.assert_outputs(self.run_collective(mixed, "all_gather"),
                            [np.concatenate(arrays)] * 3)

    def test_bfloat16(self):
        # The upper halves of float32, under the descr that ml_dtypes writes.
        arrays = arrays_of(2, 7)
        self.save([(array.view("uint32") >> 16).astype("uint16").view("V2")
                   for array in arrays])
        path = self.root / "in/rank1.npy"
        path.write_bytes(path.read_bytes().replace(b"'|V2'", b"'<V2'"))
        line = self.succeed("run", "all_reduce", "--input", "in/*.npy",
                            "--output", "out")
        self.assertIn("bfloat16[7]", line)
        written = (self.root / "out/rank0.npy").read_bytes()
        self.assertIn(b"'descr': '<V2'", written)
        total = np.load(self.root / "out/rank0.npy").view("uint16")
        np.testing.assert_array_equal(
            (total.astype("uint32") << 16).view("float32"), sum(arrays))

    def test_other_elements_are_moved_as_they_are(self):
        for dtype in ["M8[ns]", ">m8[s]", "S3", "U2", "V16", "c32",
                      [("a", "<f4"), ("b", ">i2", (2,)), ("c", [("d", "M8[D]")])]]:
            dtype = np.dtype(dtype)
            arrays = [np.frombuffer(bytes(range(first, first + 6)) * dtype.itemsize,
                                    dtype).reshape(2, 3) for first in (0, 9, 90)]
            arrays[1] = np.asfortranarray(arrays[1])
            for words, results in [
                    # NumPy concatenates in this machine's byte order.
                    ("all_gather", [np.concatenate(arrays).astype(dtype)] * 3),
                    ("broadcast", [arrays[0]] * 3),
                    ("permute --permutation 1,2,0", arrays[2:] + arrays[:2])]:
                with self.subTest(f"{words} {dtype}"):
                    found = self.run_collective(arrays, *words.split())
                    self.assertEqual(sorted(found), [0, 1, 2])
                    for rank, wanted in enumerate(results):
                        array = found[rank]
                        self.assertEqual((array.dtype, array.shape),
                                         (wanted.dtype, wanted.shape))
                        self.assertEqual(array.tobytes(), wanted.tobytes())

    def test_of_the_roots_file_alone(self):
        arrays = arrays_of(2, 9)
        self.save(arrays)
        run = ["run", "broadcast", "--output", "out", "--input"]
        self.succeed(*run, "in/rank0.npy", "--root", 3, "--devices", 5)
        self.assert_outputs(self.load(), [arrays[0]] * 5)
        result = self.run_tool(*run, "in/rank1.npy", "in/rank0.npy", "--groups",
                               2, "--devices", 4)
        self.assertIn("group 0 has in/rank0.npy, group 1 has in/rank1.npy\n",
                      result.stderr)

    def test_results_are_shown_as_they_come(self):
        arrays = [np.array([1, -3], "float32"), np.array([2, np.nan], "float32")]
        lines = self.succeed(
            "run", "reduce_scatter", "--watch", "--input", self.save(arrays),
            "--output", "out").splitlines()
        self.assertEqual(sorted(lines[:-1]),
                         ["rank 0: float32[1], min 3, mean 3, max 3",
                          "rank 1: float32[1], 1 nan"])
        self.assertEqual(
            lines[-1], "reduce_scatter sum float32[2] on 2 ranks: wrote "
            "out/rank0.npy out/rank1.npy")

    def test_the_order_of_ranks_can_be_chosen(self):
        arrays = arrays_of(4, 12)
        for algorithm, ranks in [("RingReduce", "2,0,3,1"),
                                 ("ShuffleReduce", "3,1")]:
            with self.subTest(algorithm):
                found = self.run_collective(arrays, "all_reduce", "--algorithm",
                                            algorithm, "--rank-list", ranks)
                self.assert_outputs(found, [sum(arrays)] * 4)
        for ranks, algorithm in [("0,1,2", "RingReduce"), ("0,1", "TreeReduce")]:
            self.assertIn("rank", self.fail_with(
                1, "run", "all_reduce", "--input", "in/*.npy", "--output", "no",
                "--algorithm", algorithm, "--rank-list", ranks))

    def test_names_are_put_in_natural_order_and_that_is_told(self):
        self.save([np.array([rank]) for rank in range(12)])
        note = ("tutti: note: files are taken in natural order of their names, "
                "not as given: ")
        names = [f"in/rank{rank}.npy" for rank in range(12)]
        for given, order, told in [
                # As a shell expands rank*.npy.
                (sorted(names), names, note + "rank 0 has in/rank0.npy, rank 1 "
                 "has in/rank1.npy, rank 2 has in/rank2.npy, ..., rank 11 has "
                 "in/rank11.npy\n"),
                (names[2:4], names[2:4], "")]:
            result = self.run_tool("run", "all_gather", "--input", *given,
                                   "--output", f"out{len(given)}")
            self.assertEqual(result.stderr, told)
            np.testing.assert_array_equal(
                self.load(f"out{len(given)}")[0],
                np.concatenate([np.load(self.root / name) for name in order]))

    def test_a_name_in_brackets_is_one_name(self):
        arrays = arrays_of(3, 4)
        for name, array in zip(["12", "1", "[12]"], arrays):
            with open(self.root / name, "wb") as file:
                np.save(file, array)
        for words in ["--input ./[12]", "--input [12]", "--input=[12]"]:
            self.succeed("run", "all_reduce", *words.split(), "--output", "out")
            self.assert_outputs(self.load(), [arrays[2]])

    def test_values_may_look_like_options(self):
        for name in ["-x.npy", "--y.npy"]:
            np.save(self.root / name, np.ones(3))
        self.succeed("run", "all_reduce", "--input", "-x.npy", "./--y.npy",
                     "--output=--watch")
        self.assertEqual(len(self.load("--watch")), 2)
        self.succeed("run", "all_reduce", "--output", "-out", "--input",
                     "--y.npy")
        self.assertEqual(len(self.load("-out")), 1)

    def test_results_of_an_older_run_are_pointed_out(self):
        run = ["run", "all_reduce", "--output", "out", "--input"]
        self.succeed(*run, self.save(arrays_of(4, 3)))
        result = self.run_tool(*run, "in/rank[01].npy")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stderr, "tutti: note: out also holds rank2.npy "
                         "rank3.npy, not of this run\n")

    def test_a_failure_takes_one_line_and_leaves_nothing(self):
        self.save([np.zeros(5), np.zeros(500), np.zeros(3, "M8[s]"),
                   np.zeros(0), np.zeros((), "M8[s]"), np.zeros(3, "M8[D]")])
        with open(self.root / "in/rank1.npy", "rb") as file:
            (self.root / "in/rank6.npy").write_bytes(file.read() + b"x")
        (self.root / "in/rank3.npy").write_bytes(b"PK")
        for words, wanted in [
                ("reduce_scatter --input in/rank0.npy in/rank0.npy",
                 r"in/rank0\.npy.*\[5\]"),
                ("all_reduce --input in/rank0.npy in/rank1.npy",
                 r"in/rank0\.npy.*\[5\].*in/rank1\.npy.*\[500\]"),
                ("all_reduce --input in/rank2.npy", r"in/rank2\.npy.*<M8\[s\].*all_reduce cannot combine"),
                ("all_gather --input in/rank2.npy in/rank5.npy",
                 r"<M8\[s\].*<M8\[D\].*needs one dtype"),
                ("all_gather --input in/rank4.npy", "at least one dimension"),
                ("all_reduce --input in/rank6.npy",
                 r"in/rank6\.npy: is too long: .* take 4000 bytes, but 4001 "),
                ("all_reduce --input in/rank3.npy", r"in/rank3\.npy.*truncated"),
                ("all_reduce --input none*.npy", r"none\*\.npy.*no file"),
                ("all_reduce --input [x,y]", r"\[x,y\]"),
                ("all_reduce --input in/rank0.npy --deadline 1e-9", "deadline"),
                ("all_reduce --input in/rank0.npy in/rank0.npy --algorithm "
                 "RingReduce --determinism by_rank_order",
                 "RingReduce.*by rank order")]:
            with self.subTest(words):
                self.assertRegex(self.fail_with(
                    1, "run", *words.split(), "--output", "out"), wanted)
        self.assertRegex(
            self.fail_with(1, "run", "all_reduce", "--input", "in/rank1.npy",
                           "--output", "out", preexec_fn=self.limit_files),
            "out/rank0.npy: cannot be written")
        self.assert_nothing_written()
        self.succeed("run", "all_reduce", "--input", "in/rank0.npy", "--output",
                     "out", "--deadline", "100")

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

    def test_a_reader_that_goes_away_is_no_error(self):
        pattern = self.save([np.zeros(500)] * 2)
        for args in [("info",), ("verify", "RingReduce", "--max-ranks", 3),
                     ("perf", "all_reduce", "--max-bytes", 4, "--iterations", 2),
                     ("run", "all_reduce", "--input", pattern, "--output",
                      "out", "--watch")]:
            result = self.run_for_nobody(*args)
            self.assertEqual((result.returncode, result.stderr), (0, ""), args)
        self.assertFalse(list(self.root.glob("out/.*")))

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

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            self.assertIn("standard output cannot be written",
                          self.fail_with(1, "info", stdout=full))


class ChoiceTest(ToolTest):
    """What runs is what the options of choice say, and what explain says."""

    def json_of(self, *args, **kwargs):
        return json.loads(self.run_tool(*args, "--json", **kwargs).stdout)

    def test_every_algorithm_is_described(self):
        algorithms = self.json_of("info")["algorithms"]
        self.assertTrue(all(one["summary"] for one in algorithms))
        self.assertEqual(len({collective for one in algorithms
                              for collective in one["collectives"]}), 12)

    def test_explains_what_the_library_chooses(self):
        for collective in ["all_reduce", "all_gather", "reduce_scatter",
                           "broadcast", "all_to_all", "permute", "barrier",
                           "reduce", "gather", "scatter", "scan", "exscan"]:
            size = [] if collective == "barrier" else ["--bytes", "64K"]
            with self.subTest(collective):
                told = self.json_of("explain", collective, "--layout", "2x3",
                                    "--one-process", *size)
                row, = self.json_of("perf", collective, "--devices", 6, "--tasks",
                                    2, "--iterations", 1, "--warmup", 0, *size)
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
            told = self.json_of("explain", "all_reduce", "--layout", "2x1",
                                *extra)
            self.assertIn(words.format(latency=told["process_latency_us"],
                                       bandwidth=told["process_bandwidth"],
                                       gap=told["process_gap_us"]), text)

    def test_mpi_runs_small_collectives_unless_same_bits_are_wanted(self):
        extensions = self.json_of("info")["build"]["extensions"]
        for layout, name in [("4x1", "MpiReduce"), ("4x2", "LocalThenMpi")]:
            command = ["explain", "all_reduce", "--layout", layout, "--bytes", 4]
            by_mpi = self.json_of(*command, "--mpi")["chosen"]
            self.assertEqual(by_mpi == name, "MPI" in extensions)
            for others in [["--mpi", "--determinism", "fixed_layout"], []]:
                self.assertNotIn("Mpi", self.json_of(*command, *others)["chosen"])

    def test_run_and_perf_take_rules(self):
        # A name that is no UTF-8, which spoils no JSON.
        rules = self.root / os.fsdecode(b"r\xe8gles.json")
        rules.write_text(json.dumps({"version": 1, "rules": [
            {"collective": "all_reduce", "algorithm": "RingReduce"}]}))
        told = self.json_of("explain", "all_reduce", "--rules", rules)
        self.assertEqual(told["chosen"], "RingReduce")
        # The bits depend on the order of the additions.
        pattern = self.save([np.full(4, value, "float32")
                             for value in [1e8, 3, -1e8, 5]])
        bits = {}
        for options, variables, algorithm in [
                ([], {}, "LocalReduce"),
                (["--algorithm", "RingReduce"], {}, "RingReduce"),
                (["--rules", rules], {}, "RingReduce"),
                ([], {"TUTTI_RULES": str(rules)}, "RingReduce"),
                (["--rules", rules, "--algorithm", "LocalReduce"], {},
                 "LocalReduce")]:
            row, = self.json_of(
                "perf", "all_reduce", "--devices", 2, "--max-bytes", 4,
                "--iterations", 1, *options, variables=variables)
            self.assertEqual(row["algorithm"], algorithm)
            self.run_tool("run", "all_reduce", "--input", pattern, "--output",
                          "out", *options, variables=variables)
            bits.setdefault(algorithm, set()).add(self.load()[0].tobytes())
        self.assertEqual([len(found) for found in bits.values()], [1, 1])
        self.assertFalse(bits["LocalReduce"] & bits["RingReduce"])

    def test_without_a_gpu_the_reason_is_given(self):
        gpus = self.json_of("info")["gpus"]
        if gpus["names"]:
            self.skipTest("there is a GPU")
        for args in [("perf", "all_reduce"), ("run", "barrier", "--devices", 2),
                     ("tune", "--output", "rules.json")]:
            self.assertEqual(
                self.fail_with(1, *args, "--device", "gpu"),
                f"tutti: --device gpu: {gpus['why_none']}\n")


class SchedulesTest(ToolTest):
    """What the tool shows and proves of schedules."""

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

    def test_every_schedule_is_proved(self):
        rows = json.loads(self.succeed("verify", "--max-ranks", 5, "--json"))
        schedules = [row for row in rows if row["is_schedule"]]
        self.assertGreaterEqual(len(schedules), 10)
        for row in schedules:
            self.assertEqual((row["failed"], row["first_failure"],
                              row["max_ranks"]), (0, None, 5))
            self.assertGreater(row["cases"], 0)

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

    def test_text_and_picture_of_every_schedule(self):
        for name, collective in self.schedules():
            for layout in ["1x1", "1x2", "2x3", "4x4"]:
                with self.subTest(f"{name}, {collective}, {layout}"):
                    args = ["--collective", collective, "--layout", layout]
                    text = self.succeed("schedule", name, *args)
                    self.assertTrue(
                        text.startswith(f"{name}: {collective} on {layout}"))
                    tasks, devices = map(int, layout.split("x"))
                    self.assertEqual(
                        re.findall(r"^rank (\d+)$", text, re.MULTILINE),
                        list(map(str, range(tasks * devices))))
                    sends = text.count("send ")
                    self.assertEqual(sends, text.count("recv "))
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
        # Empty chunks are not sent.
        moved = self.simulate(self.write("RingReduce", "--goal", "--ranks", 4,
                                         "--bytes", 4))
        self.assertEqual(sum(moved.values()), 2 * 3 * 4)

    def test_many_ranks(self):
        text = self.succeed("schedule", "TreeReduce", "--ranks", 1024)
        self.assertEqual(text.count("send "), 2 * 1023)
        self.assertIn("num_ranks 1024\n", self.write("TreeReduce", "--goal",
                                                     "--ranks", 1024))


if __name__ == "__main__":
    main()
