#!/usr/bin/env python3
"""Runs clang-tidy on source files, on all cores; prints each finding once.

usage: clang_tidy.py CACHE FILE...

Run it at the root of the repository. The sources of a room, and its tests, are checked
as the units that they are compiled as (bazel/room.bzl). A unit without findings is
noted in the folder CACHE and skipped until one of its sources, a header of ours that
they include, the checks, this script or the version of clang-tidy change.
"""

import collections
import concurrent.futures
import fnmatch
import functools
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROTOS = sorted(pathlib.Path("proto").glob("*.proto"))
CLANG_TIDY = "clang-tidy-19"
FLAGS = ["-std=c++20", "-I.", "-Iinclude", "-DASIO_STANDALONE", "-DASIO_NO_DEPRECATED",
         "-Wall", "-Wextra", "-Wthread-safety", "-Wzero-as-null-pointer-constant",
         "-Wno-missing-field-initializers",
         # The standard library itself names what C++20 deprecates.
         "-Wno-deprecated-declarations"]


@functools.cache
def own_includes(path):
    """The headers of this repository that `path` names."""
    names = re.findall(r'^\s*#\s*include\s+"(.+?)"', path.read_text(), re.MULTILINE)
    return [header for name in names
            for header in (pathlib.Path(name), pathlib.Path("include", name))
            if header.exists()]


def with_own_headers(sources):
    """`sources` and the headers of this repository that they include, sorted."""
    found, queue = set(sources), list(sources)
    while queue:
        for header in own_includes(queue.pop()):
            if header not in found:
                found.add(header)
                queue.append(header)
    return sorted(found)


@functools.cache
def setting():
    """What a finding depends on besides the sources."""
    version = subprocess.run([CLANG_TIDY, "--version"], check=True,
                             stdout=subprocess.PIPE).stdout
    return version + b"".join(
        pathlib.Path(path).read_bytes()
        for path in (".clang-tidy", __file__, *PROTOS))


def digest(sources):
    """Changes when what clang-tidy says of the unit may change."""
    sha = hashlib.sha256(setting())
    for source in with_own_headers(sources):
        sha.update(f"\0{source}\0".encode() + source.read_bytes())
    return sha.hexdigest()


@functools.cache
def compiled_alone(folder):
    """Patterns of the sources of `folder` that are no part of the room's unit."""
    build = folder / "BUILD"
    text = build.read_text() if build.exists() else "separate = True"
    if "separate = True" in text or "\nroom(" not in text:
        return ["*"]
    return [name.removesuffix(".cc") for name in re.findall(r'"([\w*]+(?:\.cc)?)"', text)]


def unit_of(path):
    """The name of the unit that compiles `path`, or None if it is one by itself."""
    if path.name.endswith("_test.cc"):
        own_namespace = f"\nnamespace {path.stem} {{\n"
        return "tests" if own_namespace in path.read_text() else None
    alone = any(fnmatch.fnmatch(path.stem, pattern)
                for pattern in compiled_alone(path.parent))
    return None if alone else "sources"


def units(paths):
    """The lists of sources that are compiled as one."""
    together = collections.defaultdict(list)
    for path in paths:
        if name := unit_of(path):
            together[path.parent, name].append(path)
        else:
            yield [path]
    yield from together.values()


def findings(sources, generated):
    """What clang-tidy says of a unit, a string for each finding. The folder
    `generated` has the headers that are made of the messages."""
    path = sources[0]
    if len(sources) > 1:
        path = pathlib.Path(generated, hashlib.sha256(bytes(path)).hexdigest() + ".cc")
        path.write_text("".join(f'#include "{source}"\n' for source in sources))
    result = subprocess.run(
        [CLANG_TIDY, "--quiet", "--config-file=.clang-tidy", str(path), "--", *FLAGS,
         "-isystem", generated],
        check=False, capture_output=True, text=True)
    if result.returncode == 0:
        return []
    text = result.stdout.strip() or result.stderr.strip()
    return re.split(r"\n(?=\S+:\d+:\d+: (?:error|warning): )",
                    text.replace(f"{os.getcwd()}/", ""))


def main(cache, paths):
    cache.mkdir(parents=True, exist_ok=True)
    all_units = list(units(paths))
    notes = [cache / digest(unit) for unit in all_units]
    changed = []
    for unit, note in zip(all_units, notes):
        if note.exists():
            note.touch()
        else:
            changed.append((unit, note))

    seen = set()
    with (tempfile.TemporaryDirectory() as generated,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        subprocess.run(["protoc", f"--cpp_out={generated}", *map(str, PROTOS)],
                       check=True)
        look = functools.partial(findings, generated=generated)
        for (_, note), found in zip(changed, pool.map(look, [u for u, _ in changed])):
            if not found:
                note.touch()
            for finding in found:
                if finding not in seen:
                    print(finding, flush=True)
                seen.add(finding)
    print(f"clang-tidy: {len(changed)} of {len(all_units)} units checked, "
          f"{len(seen)} findings", file=sys.stderr)
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), [pathlib.Path(a) for a in sys.argv[2:]]))
