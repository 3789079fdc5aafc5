#!/usr/bin/env python3
"""Checks that the dependencies between folders point one way.

    proto <- framework <- schedule <- {implementations, resolvers, remote,
    outfeed, gpu} <- {//:tutti, runtime} <- {tools, examples, bench, tests}

Folders in braces do not know each other, but for the last. Tests, and libraries marked
testonly, may depend on anything. `//:tutti` needs nothing but Abseil and Highway,
directly or not.

Prints a line for each wrong arrow, with the rule that it breaks.
"""

import collections
import itertools
import os
import re
import subprocess
import sys

LAYERS = (
    ("proto",),
    ("framework",),
    ("schedule",),
    ("implementations", "resolvers", "remote", "outfeed", "gpu"),
    ("", "runtime"),  # //:tutti
    ("tools", "examples", "bench", "tests"),
)
LEVELS = {folder: level for level, layer in enumerate(LAYERS) for folder in layer}
TOP = len(LAYERS) - 1

CORE = "//:tutti"
CORE_FOLDERS = ("framework", "schedule")
CORE_REPOSITORIES = {"com_google_absl", "com_github_google_highway"}
# System headers that need no dependency to be found.
FOREIGN_INCLUDE = re.compile(
    r'\s*#\s*include\s*[<"]((grpc|google/protobuf|mpi|cuda|nccl)[^>"]*)')


def dependencies():
    """The targets and files that what we ship needs: {label: [label]}."""
    query = subprocess.run(
        ["bazel", "query", "--noimplicit_deps", "--output=graph",
         "--nograph:factored", "--graph:node_limit=-1",
         "deps(//... except attr(testonly, 1, //...))"],
        check=False, stdout=subprocess.PIPE, text=True)
    if query.returncode != 0:
        sys.exit("check_arrows: `bazel query` failed")
    graph = collections.defaultdict(list)
    for source, target in re.findall(
            r'^  "(.+?)" -> "(.+?)"$', query.stdout, re.MULTILINE):
        graph[source].append(target)
    return graph


def folder(label):
    """The top folder of a label of ours: "framework" of "//framework/tensor"."""
    return re.match(r"//([^/:]*)", label).group(1)


def is_ours(label):
    return label.startswith("//")


def wrong_arrows(graph):
    for source in filter(is_ours, sorted(graph)):
        for target in filter(is_ours, graph[source]):
            pair = folder(source), folder(target)
            unknown = [name for name in pair if name not in LEVELS]
            if unknown:
                yield (f"{source} -> {target}: the folder {unknown[0]}/ has no place "
                       "among the LAYERS of tools/check_arrows.py")
            elif pair[0] != pair[1] and LEVELS[pair[0]] < LEVELS[pair[1]]:
                yield (f"{source} -> {target}: the arrow goes "
                       f"{pair[0] or CORE} <- {pair[1] or CORE}")
            elif pair[0] != pair[1] and LEVELS[pair[0]] == LEVELS[pair[1]] < TOP:
                yield (f"{source} -> {target}: {pair[0]}/ and {pair[1]}/ do not know "
                       "each other")


def closure(graph, start):
    """What `start` needs, each with a path to it: {label: [start, ..., label]}."""
    paths = {start: [start]}
    queue = collections.deque([start])
    while queue:
        label = queue.popleft()
        for target in graph.get(label, []):
            if target not in paths:
                paths[target] = paths[label] + [target]
                queue.append(target)
    return paths


def foreign_repositories(graph):
    for label, path in closure(graph, CORE).items():
        if not is_ours(label):
            repository = re.match(r"@([^/]*)", label).group(1)
            if repository not in CORE_REPOSITORIES:
                yield f"{' -> '.join(path)}: {CORE} needs Abseil and Highway only"


def foreign_includes(graph):
    core = [label for label in graph if is_ours(label) and folder(label) in CORE_FOLDERS]
    labels = {*closure(graph, CORE), *itertools.chain.from_iterable(map(graph.get, core))}
    for label in sorted(filter(is_ours, labels)):
        file = label[2:].replace(":", "/").lstrip("/")
        if not file.endswith((".h", ".cc")) or not os.path.exists(file):
            continue
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if match := FOREIGN_INCLUDE.match(line):
                    yield (f"{file}:{number}: includes {match.group(1)}: the core "
                           "names no gRPC, Protobuf, MPI, CUDA or NCCL")


def main():
    graph = dependencies()
    wrong = [*wrong_arrows(graph), *foreign_repositories(graph),
             *foreign_includes(graph)]
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
