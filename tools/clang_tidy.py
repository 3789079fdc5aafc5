#!/usr/bin/env python3
"""Runs clang-tidy on source files, on all cores; prints each finding once.

usage: clang_tidy.py CACHE FILE...

Run it at the root of the repository. A file without findings is noted in the
folder CACHE and not looked at again until it, a header of ours that it includes,
the checks, this script or the version of clang-tidy change.
"""

import concurrent.futures
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
FLAGS = ["-std=c++20", "-I.", "-DASIO_STANDALONE", "-DASIO_NO_DEPRECATED",
         "-Wall", "-Wextra", "-Wthread-safety", "-Wzero-as-null-pointer-constant",
         "-Wno-missing-field-initializers",
         # The standard library itself names what C++20 deprecates.
         "-Wno-deprecated-declarations"]


@functools.cache
def own_includes(path):
    """The headers of this repository that `path` names."""
    names = re.findall(r'^\s*#\s*include\s+"(.+?)"', path.read_text(), re.MULTILINE)
    return [header for header in map(pathlib.Path, names) if header.exists()]


def with_own_headers(path):
    """`path` and the headers of this repository that it includes, sorted."""
    found, queue = {path}, [path]
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


def digest(path):
    """Changes when what clang-tidy says of `path` may change."""
    sha = hashlib.sha256(setting())
    for source in with_own_headers(path):
        sha.update(f"\0{source}\0".encode() + source.read_bytes())
    return sha.hexdigest()


def findings(path, generated):
    """What clang-tidy says of `path`, a string for each finding. The folder
    `generated` has the headers that are made of the messages."""
    result = subprocess.run(
        [CLANG_TIDY, "--quiet", str(path), "--", *FLAGS, "-isystem", generated],
        check=False, capture_output=True, text=True)
    if result.returncode == 0:
        return []
    text = result.stdout.strip() or result.stderr.strip()
    return re.split(r"\n(?=\S+:\d+:\d+: (?:error|warning): )",
                    text.replace(f"{os.getcwd()}/", ""))


def main(cache, paths):
    cache.mkdir(parents=True, exist_ok=True)
    notes = {path: cache / digest(path) for path in paths}
    changed = [path for path in paths if not notes[path].exists()]
    for path in paths:
        if path not in changed:
            notes[path].touch()

    seen = set()
    with (tempfile.TemporaryDirectory() as generated,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        subprocess.run(["protoc", f"--cpp_out={generated}", *map(str, PROTOS)],
                       check=True)
        look = functools.partial(findings, generated=generated)
        for path, found in zip(changed, pool.map(look, changed)):
            if not found:
                notes[path].touch()
            for finding in found:
                if finding not in seen:
                    print(finding, flush=True)
                seen.add(finding)
    print(f"clang-tidy: {len(changed)} of {len(paths)} files looked at, "
          f"{len(seen)} findings", file=sys.stderr)
    return 1 if seen else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), [pathlib.Path(a) for a in sys.argv[2:]]))
