"""Reads the rules of .bzl files, for tests: Python reads their Starlark."""

import pathlib
import types


class Failure(Exception):
    """What fail() ends a rule with."""


def fail(text):
    raise Failure(text)


def names_of(path):
    """What the file and those that it loads define. Rules are the arguments that
    they were made of."""
    path = pathlib.Path(path)

    def load(label, *wanted):
        loaded = names_of(path.parent / label.split(":")[1])
        names.update({name: loaded[name] for name in wanted})

    names = {
        "attr": types.SimpleNamespace(string=lambda **_: None,
                                      string_list=lambda **_: None),
        "fail": fail,
        "load": load,
        "repository_rule": lambda **arguments: arguments,
        "struct": types.SimpleNamespace,
    }
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), names)
    return names
