#!/usr/bin/env python3
"""Checks the first word of every comment.

usage: check_words.py FILE...

A comment says first what the thing below it is or does: its first word is a noun or a
verb, not one of REFUSED. A comment is a run of lines that hold nothing but `//`; the
NOLINT and clang-format marks are none. Prints a line for each violation.
"""

import re
import sys

REFUSED = frozenset(
    "what who whom whose of that those these which where as so it they one ones".split())

COMMENT = re.compile(r"\s*// *(.*)")


def refused(lines):
    """Yields (number, first word) of each comment that opens with a refused word."""
    in_comment = False
    for number, line in enumerate(lines, start=1):
        match = COMMENT.match(line)
        if match and not in_comment:
            word = re.match(r"[a-z]*", match.group(1).lower()).group()
            if word in REFUSED:
                yield number, word
        in_comment = match is not None


def main(paths):
    found = False
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for number, word in refused(lines):
                found = True
                print(f'{path}:{number}: the comment opens with "{word}": begin with the '
                      "noun or the verb of what is below", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
