#!/usr/bin/env python3
"""Whether the pictures of algorithms.md are what the tool draws, and its times
what debug_a_hang.md lists.

usage: pictures_test.py TUTTI ALGORITHMS_MD

Above each picture a comment has the command that draws it.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

TUTTI = pathlib.Path(sys.argv[1]).resolve()
PAGE = pathlib.Path(sys.argv[2])
PICTURE = re.compile(r"<!-- tutti (schedule .*--svg) -->\n!\[.*\]\((.*)\)")


class PicturesTest(unittest.TestCase):

    def test_pictures_are_what_the_tool_draws(self):
        pictures = PICTURE.findall(PAGE.read_text())
        self.assertEqual(len(pictures), PAGE.read_text().count("images/"))
        for command, name in pictures:
            with self.subTest(picture=name), \
                    tempfile.NamedTemporaryFile() as drawn:
                subprocess.run([TUTTI, *command.split(), drawn.name],
                               check=True, stdout=subprocess.DEVNULL)
                self.assertTrue(
                    (PAGE.parent / name).read_text() ==
                    pathlib.Path(drawn.name).read_text(),
                    f"draw it anew: tutti {command} docs/{name}")

    def algorithms(self):
        return json.loads(subprocess.run(
            [TUTTI, "info", "--json"], check=True, text=True,
            capture_output=True).stdout)["algorithms"]

    def test_every_algorithm_that_has_steps_is_drawn(self):
        names = [algorithm["name"] for algorithm in self.algorithms()
                 if algorithm["is_schedule"]]
        self.assertGreater(len(names), 20)
        drawn = {pathlib.Path(picture).stem
                 for _, picture in PICTURE.findall(PAGE.read_text())}
        self.assertEqual([name for name in names if name not in drawn], [])

    def test_every_algorithm_is_described(self):
        text = PAGE.read_text()
        names = [algorithm["name"] for algorithm in self.algorithms()]
        self.assertGreater(len(names), 30)
        self.assertEqual([name for name in names
                          if not re.search(rf"\b{name}\b", text)], [])

    def test_every_time_is_listed(self):
        times = subprocess.run([TUTTI, "info", "--times"], check=True,
                               text=True, capture_output=True).stdout
        self.assertIn(f"```\n{times}```\n",
                      (PAGE.parent / "debug_a_hang.md").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
