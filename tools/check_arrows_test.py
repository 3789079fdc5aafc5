#!/usr/bin/env python3
"""Tests the rules of check_arrows.py on graphs made by hand.

usage: check_arrows_test.py CHECK_ARROWS
"""

import importlib.util
import os
import pathlib
import sys
import tempfile
import unittest

SPEC = importlib.util.spec_from_file_location(
    "check_arrows", os.path.abspath(sys.argv[1]))
check_arrows = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_arrows)


class WrongArrowsTest(unittest.TestCase):

    def wrong(self, source, target, doubles=()):
        return list(check_arrows.wrong_arrows({source: [target]}, frozenset(doubles)))

    def test_arrows_to_lower_rooms_are_right(self):
        for source, target in [
                ("//framework/tensor:tensor", "//framework/base:base"),
                ("//schedule:schedule", "//framework/choice:choice"),
                ("//implementations/two_level:two_level",
                 "//implementations/local:local"),
                ("//:tutti", "//runtime:local"),
                ("//gpu/device:device", "//schedule/engine:engine"),
                ("//tools/cluster:cluster", "//gpu/runtime:runtime"),
                ("//framework/base:a", "//framework/base:b"),
                ("//framework/base:base", "//include:tutti"),
                ("//framework/base:base", "@com_google_absl//absl/status")]:
            self.assertEqual(self.wrong(source, target), [])

    def test_arrows_to_higher_rooms_are_wrong(self):
        for source, target in [
                ("//framework/base:base", "//framework/tensor:tensor"),
                ("//framework/choice:choice", "//framework/executor:executor"),
                ("//schedule:schedule", "//schedule/proof:proof"),
                ("//implementations/parts:parts", "//implementations:implementations"),
                ("//resolvers/local:local", "//runtime:runtime"),
                ("//:tutti", "//tools/base:base")]:
            line, = self.wrong(source, target)
            self.assertIn(f"{source} -> {target}: the arrow goes", line)

    def test_wings_and_rooms_of_one_layer_do_not_know_each_other(self):
        for source, target in [
                ("//implementations:implementations", "//resolvers/local:local"),
                ("//gpu/device:device", "//implementations/parts:parts"),
                ("//remote/grpc:grpc", "//gpu/kernels:kernels"),
                ("//framework/reduce:reduce", "//framework/peer:peer"),
                ("//tools/draw:draw", "//tools/files:files")]:
            line, = self.wrong(source, target)
            self.assertIn("do not know each other", line)

    def test_what_is_above_all_may_use_everything(self):
        self.assertEqual(
            self.wrong("//examples/embed:a", "//tools/commands:commands"), [])

    def test_doubles_are_held_to_the_rooms_too(self):
        double = "//remote:testing"
        line, = self.wrong(double, "//runtime:runtime", [double])
        self.assertIn("the arrow goes", line)

    def test_doubles_may_use_doubles_of_any_room(self):
        double, other = "//framework/executor:testing", "//remote/grpc:testing"
        self.assertEqual(self.wrong(double, other, [double, other]), [])
        self.assertEqual(self.wrong(double, "//tests/doubles:doubles", [double]), [])

    def test_unknown_folders_have_no_place(self):
        line, = self.wrong("//framework/base:a", "//attic:b")
        self.assertIn("attic/ has no place", line)


class FullRoomsTest(unittest.TestCase):

    def test_a_room_has_at_most_fifty_files(self):
        files = [f"framework/base/{number}.h" for number in range(50)]
        self.assertEqual(list(check_arrows.full_rooms(files)), [])
        line, = check_arrows.full_rooms(files + ["framework/base/more.h"])
        self.assertIn("framework/base/ has 51 files, more than 50", line)


class ForeignRepositoriesTest(unittest.TestCase):

    def test_the_core_needs_abseil_and_highway_only(self):
        graph = {"//:tutti": ["//framework/base:a", "@com_google_absl//absl/status"],
                 "//framework/base:a": ["@com_github_google_highway//:hwy"]}
        self.assertEqual(list(check_arrows.foreign_repositories(graph)), [])

    def test_what_else_it_needs_is_shown_with_the_way_there(self):
        graph = {"//:tutti": ["//framework/base:a"],
                 "//framework/base:a": ["//framework/base:b"],
                 "//framework/base:b": ["@grpc//:grpc"]}
        line, = check_arrows.foreign_repositories(graph)
        self.assertTrue(line.startswith(
            "//:tutti -> //framework/base:a -> //framework/base:b -> @grpc//:grpc: "))

    def test_what_only_others_need_does_not_count(self):
        graph = {"//:tutti": [], "//tools/commands": ["@cli11//:cli11"]}
        self.assertEqual(list(check_arrows.foreign_repositories(graph)), [])


class ForeignIncludesTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)

    def includes(self, label, text):
        path = pathlib.Path(label[2:].replace(":", "/"))
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        graph = {"//:tutti": ["//framework/base:a"], "//framework/base:a": [label],
                 "//tools/commands": []}
        return list(check_arrows.foreign_includes(graph))

    def test_foreign_headers_are_named_with_their_line(self):
        for header in ["<mpi.h>", "<grpcpp/grpcpp.h>", "<cuda_runtime.h>",
                       "<nccl.h>", '"google/protobuf/message.h"']:
            line, = self.includes("//framework:a.h", f"//\n#  include {header}\n")
            self.assertTrue(line.startswith(
                f"framework/a.h:2: includes {header[1:-1]}: "), line)

    def test_other_headers_and_comments_are_not(self):
        self.assertEqual(
            self.includes("//framework:a.cc",
                          '#include <map>\n#include "framework/mpi.h"\n'
                          "// #include <mpi.h>\n"), [])

    def test_files_outside_the_core_may(self):
        self.assertEqual(self.includes("//tools:a.txt", "#include <mpi.h>\n"), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
