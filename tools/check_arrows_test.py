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

    def wrong(self, source, target):
        return list(check_arrows.wrong_arrows({source: [target]}))

    def test_arrows_to_lower_layers_are_right(self):
        for source, target in [
                ("//schedule", "//framework/tensor"),
                ("//implementations:ring", "//framework/tensor"),
                ("//:tutti", "//runtime"),
                ("//gpu/device", "//framework/tensor"),
                ("//gpu/device", "//schedule"),
                ("//tools/commands", "//gpu/runtime:cuda"),
                ("//tools/commands", "//:tutti"),
                ("//framework:a", "//framework:b"),
                ("//framework:a", "@com_google_absl//absl/status")]:
            self.assertEqual(self.wrong(source, target), [])

    def test_arrows_to_higher_layers_are_wrong(self):
        for source, target in [
                ("//framework/tensor", "//schedule"),
                ("//schedule", "//implementations:ring"),
                ("//framework/tensor", "//gpu/device"),
                ("//resolvers:a", "//:tutti"),
                ("//:tutti", "//tools/commands")]:
            line, = self.wrong(source, target)
            self.assertIn(f"{source} -> {target}: the arrow goes", line)

    def test_neighbours_do_not_know_each_other(self):
        for source, target in [
                ("//implementations:ring", "//resolvers:a"),
                ("//gpu/device", "//implementations:ring"),
                ("//gpu/device", "//outfeed:a"),
                ("//remote", "//gpu/device")]:
            line, = self.wrong(source, target)
            self.assertIn("do not know each other", line)

    def test_neighbours_at_the_top_may(self):
        self.assertEqual(self.wrong("//examples/embed:a", "//tools/commands"), [])

    def test_unknown_folders_have_no_place(self):
        line, = self.wrong("//framework:a", "//attic:b")
        self.assertIn("attic/ has no place", line)


class ForeignRepositoriesTest(unittest.TestCase):

    def test_the_core_needs_abseil_and_highway_only(self):
        graph = {"//:tutti": ["//framework:a", "@com_google_absl//absl/status"],
                 "//framework:a": ["@com_github_google_highway//:hwy"]}
        self.assertEqual(list(check_arrows.foreign_repositories(graph)), [])

    def test_what_else_it_needs_is_shown_with_the_way_there(self):
        graph = {"//:tutti": ["//framework:a"],
                 "//framework:a": ["//framework:b"],
                 "//framework:b": ["@grpc//:grpc"]}
        line, = check_arrows.foreign_repositories(graph)
        self.assertTrue(line.startswith(
            "//:tutti -> //framework:a -> //framework:b -> @grpc//:grpc: "))

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
        graph = {"//:tutti": ["//framework:a"], "//framework:a": [label],
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
