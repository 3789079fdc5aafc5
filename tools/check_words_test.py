#!/usr/bin/env python3
"""Tests check_words.py on comments made by hand.

usage: check_words_test.py CHECK_WORDS
"""

import importlib.util
import os
import sys
import unittest

SPEC = importlib.util.spec_from_file_location(
    "check_words", os.path.abspath(sys.argv[1]))
check_words = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_words)


class RefusedTest(unittest.TestCase):

    def refused(self, text):
        return list(check_words.refused(text.splitlines()))

    def test_a_comment_that_opens_with_a_noun_or_a_verb_is_right(self):
        self.assertEqual(self.refused("// Signals received.\nint a;\n  // Sets b.\n"), [])

    def test_a_comment_that_opens_with_a_pronoun_is_refused(self):
        self.assertEqual(self.refused("int a;\n\n  // What came.\n"), [(3, "what")])
        self.assertEqual(self.refused("//It is so.\n"), [(1, "it")])

    def test_only_the_first_line_of_a_comment_counts(self):
        self.assertEqual(self.refused("// Signals received\n// of the process.\n"), [])

    def test_each_comment_counts(self):
        self.assertEqual(self.refused("// Of a.\nint a;\n// Of b.\n"),
                         [(1, "of"), (3, "of")])

    def test_a_longer_word_is_another_word(self):
        self.assertEqual(self.refused("// Offers.\n// Items.\n\n// Soft limit.\n"), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
