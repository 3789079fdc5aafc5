#!/usr/bin/env python3
"""The schema of files of rules says what the tool takes.

usage: rules_schema_test.py TUTTI SCHEMA PAGE

PAGE shows such a file.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema

TUTTI = os.path.abspath(sys.argv[1])
SCHEMA = json.loads(pathlib.Path(sys.argv[2]).read_text(encoding="utf-8"))
PAGE = pathlib.Path(sys.argv[3]).read_text(encoding="utf-8")

RULE = {"collective": "all_reduce", "algorithm": "RingReduce"}
GOOD_RULES = [
    {"layout": "4x2"}, {"layout": "3+1+2"}, {"layout": "02x2"},
    {"one_process": True}, {"one_process": False}, {"min_bytes": 0},
    {"max_bytes": 2**63 - 1}, {"min_bytes": 5, "max_bytes": 5}]
BAD_RULES = [
    {"layout": ""}, {"layout": "8"}, {"layout": "0x2"}, {"layout": "2x2x2"},
    {"layout": "2+"}, {"layout": 8}, {"one_process": 1}, {"min_bytes": -1},
    {"min_bytes": 0.5}, {"max_bytes": 2**63}, {"max_bytes": "many"},
    {"algorithm": ""}, {"algorithm": "R" * 201}, {"algorithm": 7},
    {"collective": "reduce_all"}, {"collective": None}, {"max_byte": 5}]
# What only the reader refuses.
UNSAID_RULES = [
    {"layout": "100000x100000"}, {"min_bytes": 5.0}, {"algorithm": "Rnig"},
    {"min_bytes": 9, "max_bytes": 5}]
BAD_FILES = [
    [], {}, {"version": 1}, {"rules": []}, {"version": 2, "rules": []},
    {"version": 1, "rules": {}}, {"version": 1, "rules": [7]},
    {"version": 1, "rules": [{"collective": "all_reduce"}]},
    {"version": 1, "rules": [{"algorithm": "RingReduce"}]},
    {"version": 1, "rules": [], "comment": 7},
    {"version": 1, "rules": [], "$schema": 7},
    {"version": 1, "rules": [], "rule": []},
    {"version": 1, "rules": [], "past_caches_from_bytes": -1}]


def file_of(*rules, **keys):
    return {"version": 1, "rules": list(rules), **keys}


class RulesSchemaTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, "rules.json")

    def is_taken(self, rules):
        self.path.write_text(json.dumps(rules), encoding="utf-8")
        status = subprocess.run(
            [TUTTI, "explain", "barrier", "--rules", self.path], check=False,
            capture_output=True, stdin=subprocess.DEVNULL).returncode
        self.assertIn(status, (0, 2))
        return status == 0

    def is_valid(self, rules):
        return jsonschema.Draft7Validator(SCHEMA).is_valid(rules)

    def test_it_is_a_schema(self):
        jsonschema.Draft7Validator.check_schema(SCHEMA)

    def test_both_take_what_is_right(self):
        for rules in [
                file_of(), file_of(RULE), file_of(RULE, comment="of mine"),
                file_of(RULE, past_caches_from_bytes=1 << 20),
                file_of(RULE, **{"$schema": "rules.schema.json"}),
                *(file_of(RULE | rule) for rule in GOOD_RULES),
                json.loads(re.search("```json\n(.*?)```", PAGE, re.S).group(1))]:
            with self.subTest(rules=rules):
                self.assertTrue(self.is_taken(rules))
                self.assertTrue(self.is_valid(rules))

    def test_both_refuse_what_is_wrong(self):
        for rules in [*BAD_FILES,
                      *(file_of(RULE | rule) for rule in BAD_RULES)]:
            with self.subTest(rules=rules):
                self.assertFalse(self.is_taken(rules))
                self.assertFalse(self.is_valid(rules))

    def test_only_the_reader_knows_what_the_schema_does_not_say(self):
        for rule in UNSAID_RULES:
            with self.subTest(rule=rule):
                self.assertFalse(self.is_taken(file_of(RULE | rule)))
                self.assertTrue(self.is_valid(file_of(RULE | rule)))

    def test_what_tune_writes_is_right(self):
        subprocess.run([TUTTI, "tune", "broadcast", "--layout", "1x2",
                        "--max-bytes", "64", "--rounds", "1", "--output",
                        self.path], check=True, capture_output=True,
                       stdin=subprocess.DEVNULL)
        rules = json.loads(self.path.read_text(encoding="utf-8"))
        self.assertTrue(rules["rules"])
        self.assertTrue(self.is_valid(rules))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
