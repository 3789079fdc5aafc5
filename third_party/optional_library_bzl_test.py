#!/usr/bin/env python3
"""Tests what optional_library.bzl makes of machines made by hand.

usage: optional_library_bzl_test.py OPTIONAL_LIBRARY_BZL
"""

import sys
import types
import unittest

import bzl_rule

HEADER = "/usr/include/tbb/tbb.h"

RULE = bzl_rule.names_of(sys.argv[1])["optional_library"]


class Machine:
    """A machine, as the rule sees it and what it makes of the library `tbb`."""

    def __init__(self, files, without=None, name="tbb"):
        self.files = files
        self.name = name
        self.attr = types.SimpleNamespace(
            header=HEADER, include="/usr/include/tbb", defines=["TBB"],
            linkopts=["-ltbb"])
        self.os = types.SimpleNamespace(
            environ={} if without is None else {"TUTTI_WITHOUT": without})
        self.made, self.links = {}, {}
        RULE["implementation"](self)
        self.installed = {}
        exec(self.made["installed.bzl"], self.installed)

    def path(self, name):
        return types.SimpleNamespace(exists=name in self.files)

    def file(self, name, text):
        self.made[name] = text

    def symlink(self, target, name):
        self.links[name] = target


class OptionalLibraryTest(unittest.TestCase):

    def check_found(self, machine):
        self.assertTrue(machine.installed["HAS_TBB"])
        self.assertEqual(machine.installed["WITH_TBB"], [])
        self.assertEqual(machine.links, {"include": "/usr/include/tbb"})
        self.assertIn("linkopts = ['-ltbb']", machine.made["BUILD"])

    def check_missing(self, machine):
        self.assertFalse(machine.installed["HAS_TBB"])
        self.assertEqual(machine.installed["WITH_TBB"],
                         ["@platforms//:incompatible"])
        self.assertEqual(machine.links, {})
        self.assertIn("linkopts = []", machine.made["BUILD"])

    def test_it_is_there_if_its_header_is(self):
        self.check_found(Machine({HEADER}))
        self.check_missing(Machine(set()))

    def test_it_is_missing_where_the_variable_names_it(self):
        for without in "tbb", "openmpi,tbb", "openmpi, tbb":
            self.check_missing(Machine({HEADER}, without))

    def test_others_that_the_variable_names_do_not_matter(self):
        for without in "", ",", "openmpi", "cuda,nccl":
            self.check_found(Machine({HEADER}, without))
            self.check_missing(Machine(set(), without))

    def test_a_name_of_no_library_is_refused(self):
        for without in "openmp", "tbb, openmp":
            with self.assertRaisesRegex(
                    bzl_rule.Failure,
                    "^TUTTI_WITHOUT names openmp; known: cuda, gloo, nccl, "):
                Machine({HEADER}, without)

    def test_a_library_that_the_variable_cannot_name_is_refused(self):
        with self.assertRaisesRegex(bzl_rule.Failure, "does not know paint"):
            Machine({HEADER}, name="paint")

    def test_bazel_looks_again_when_the_variable_changes(self):
        self.assertIn("TUTTI_WITHOUT", RULE["environ"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
