#!/usr/bin/env python3
"""Tests which repositories repositories.bzl names in a WORKSPACE.

usage: repositories_bzl_test.py REPOSITORIES_BZL
"""

import sys
import types
import unittest

import bzl_rule

OPTIONAL = {"cuda", "gloo", "openmpi", "tbb"}


def repositories(known=(), **arguments):
    """Those that it adds to a WORKSPACE that has named `known`: the path of
    each, or None where it has none."""
    named = {}

    def name_one(name, path=None, **_):
        named[name] = path

    names = bzl_rule.names_of(sys.argv[1])
    names.update(
        cuda=name_one,
        optional_library=name_one,
        native=types.SimpleNamespace(
            existing_rules=lambda: dict.fromkeys(known),
            local_repository=name_one))
    names["tutti_repositories"](**arguments)
    return named


class RepositoriesTest(unittest.TestCase):

    def test_paths_lead_to_tuttis_folder_or_to_what_is_installed(self):
        paths = {name: path
                 for name, path in repositories(path="deps/tutti").items()
                 if path is not None and not path.startswith("/usr/")}
        self.assertIn("com_google_absl", paths)
        for name, path in paths.items():
            self.assertEqual(path, f"deps/tutti/third_party/{name}")

    def test_what_the_build_can_do_without_is_named_too(self):
        self.assertLessEqual(OPTIONAL, repositories().keys())

    def test_what_the_workspace_has_named_before_stays(self):
        known = ["com_google_absl", "rules_java", "openmpi", "cuda"]
        self.assertEqual(repositories().keys() - known,
                         repositories(known).keys())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
