#!/usr/bin/env python3
"""Tests what optional_library.bzl makes of machines made by hand.

usage: optional_library_bzl_test.py OPTIONAL_LIBRARY_BZL
"""

import sys
import types
import unittest

HEADER = "/usr/include/paint/paint.h"


def rule(path):
    """The arguments of the rule in the file. Python reads its Starlark."""
    names = {
        "attr": types.SimpleNamespace(string=lambda **_: None,
                                      string_list=lambda **_: None),
        "repository_rule": lambda **arguments: arguments,
    }
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), path, "exec"), names)
    return names["optional_library"]


RULE = rule(sys.argv[1])


class Machine:
    """A machine, as the rule sees it and what it makes of the library `paint`."""

    def __init__(self, files, without=None):
        self.files = files
        self.name = "paint"
        self.attr = types.SimpleNamespace(
            header=HEADER, include="/usr/include/paint", defines=["PAINT"],
            linkopts=["-lpaint"])
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
        self.assertTrue(machine.installed["HAS_PAINT"])
        self.assertEqual(machine.installed["WITH_PAINT"], [])
        self.assertEqual(machine.links, {"include": "/usr/include/paint"})
        self.assertIn("linkopts = ['-lpaint']", machine.made["BUILD"])

    def check_missing(self, machine):
        self.assertFalse(machine.installed["HAS_PAINT"])
        self.assertEqual(machine.installed["WITH_PAINT"],
                         ["@platforms//:incompatible"])
        self.assertEqual(machine.links, {})
        self.assertIn("linkopts = []", machine.made["BUILD"])

    def test_it_is_there_if_its_header_is(self):
        self.check_found(Machine({HEADER}))
        self.check_missing(Machine(set()))

    def test_it_is_missing_where_the_variable_names_it(self):
        for without in "paint", "brush,paint", "brush, paint":
            self.check_missing(Machine({HEADER}, without))

    def test_others_that_the_variable_names_do_not_matter(self):
        for without in "", "brush", "paint2,ink":
            self.check_found(Machine({HEADER}, without))
            self.check_missing(Machine(set(), without))

    def test_bazel_looks_again_when_the_variable_changes(self):
        self.assertIn("TUTTI_WITHOUT", RULE["environ"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
