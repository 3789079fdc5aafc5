#!/usr/bin/env python3
"""Checks that the dependencies between rooms point one way.

A room is a folder with a BUILD file. LAYERS lists the rooms from the lowest to the
highest. A library may depend on libraries of its own room and of lower layers only;
the WINGS know none of each other. The same holds for test doubles (libraries marked
testonly), which may also use the doubles of any room. Tests may use everything.

`//:tutti` needs Abseil and Highway alone, directly or not. No room has more than
MOST_FILES files.

Prints a line for each violation, with the rule that it breaks.
"""

import collections
import itertools
import os
import re
import subprocess
import sys

LAYERS = (
    ("proto", "include"),
    ("framework/base",),
    ("framework/tensor",),
    ("framework/reduce", "framework/peer"),
    ("framework/collective", "framework/control"),
    ("framework/choice",),
    ("framework/executor",),
    ("schedule",),
    ("schedule/proof", "schedule/engine"),
    ("schedule/simulate", "schedule/lower"),
    # The wings.
    ("implementations/parts", "resolvers/messages", "remote", "named_tensors",
     "outfeed", "gpu/kernels"),
    ("implementations", "implementations/local", "resolvers/local",
     "remote/grpc/wire", "remote/mpi/messages", "outfeed/remote", "gpu/runtime"),
    ("implementations/two_level", "resolvers/leader", "remote/grpc/connection",
     "remote/mpi/collectives", "gpu/nccl/runtime"),
    ("resolvers/membership", "remote/grpc/transfers", "remote/mpi", "gpu/device"),
    ("remote/grpc", "gpu/passes"),
    ("gpu/nccl",),
    ("gpu",),
    ("runtime",),
    ("",),  # Has //:tutti.
    ("tools/base",),
    ("tools/request", "tools/files", "tools/draw", "tools/launch"),
    ("tools/cluster",),
    ("tools/measure",),
    ("tools/commands",),
    ("tools",),
)
LEVELS = {room: level for level, layer in enumerate(LAYERS) for room in layer}
WINGS = ("implementations", "resolvers", "remote", "named_tensors", "outfeed", "gpu")

# Everything may be used here, and nothing else uses these rooms.
TOP_WINGS = ("examples", "bench", "tests", "tools/sanitizers", "gpu/testing")

# Lists of libraries without sources.
COLLECTIONS = ("//implementations:all",)

MOST_FILES = 50

CORE = "//:tutti"
CORE_WINGS = ("framework", "schedule")
CORE_REPOSITORIES = {"com_google_absl", "com_github_google_highway"}
# System headers that need no dependency to be found.
FOREIGN_INCLUDE = re.compile(
    r'\s*#\s*include\s*[<"]((grpc|google/protobuf|mpi|cuda|nccl)[^>"]*)')


def query(expression):
    """The graph of what `expression` selects: {label: [label]}."""
    result = subprocess.run(
        ["bazel", "query", "--noimplicit_deps", "--output=graph",
         "--nograph:factored", "--graph:node_limit=-1", expression],
        check=False, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit("check_arrows: `bazel query` failed")
    graph = collections.defaultdict(list)
    for source, target in re.findall(
            r'^  "(.+?)" -> "(.+?)"$', result.stdout, re.MULTILINE):
        graph[source].append(target)
    return graph


def labels(expression):
    result = subprocess.run(["bazel", "query", expression], check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True)
    return set(result.stdout.split())


def room(label):
    """The room of a label of ours: "framework/base" of "//framework/base:mutex"."""
    return re.match(r"//([^:]*)", label).group(1)


def is_ours(label):
    return label.startswith("//")


def in_wing(name, wings):
    return next((wing for wing in wings
                 if name == wing or name.startswith(wing + "/")), None)


def wrong_arrows(graph, doubles=frozenset()):
    for source in filter(is_ours, sorted(graph)):
        if in_wing(room(source), TOP_WINGS) or source in COLLECTIONS:
            continue
        for target in filter(is_ours, graph[source]):
            yield from wrong_arrow(source, target, doubles)


def wrong_arrow(source, target, doubles):
    pair = room(source), room(target)
    if pair[0] == pair[1] or source in doubles and (
            target in doubles or in_wing(pair[1], TOP_WINGS)):
        return
    unknown = [name for name in pair if name not in LEVELS]
    if unknown:
        yield (f"{source} -> {target}: the room {unknown[0]}/ has no place among the "
               "LAYERS of tools/check_arrows.py")
        return
    wings = in_wing(pair[0], WINGS), in_wing(pair[1], WINGS)
    if wings[0] and wings[1] and wings[0] != wings[1]:
        yield (f"{source} -> {target}: {wings[0]}/ and {wings[1]}/ do not know each "
               "other")
    elif LEVELS[pair[0]] < LEVELS[pair[1]]:
        yield (f"{source} -> {target}: the arrow goes "
               f"{pair[0] or CORE} <- {pair[1] or CORE}")
    elif LEVELS[pair[0]] == LEVELS[pair[1]]:
        yield f"{source} -> {target}: {pair[0]}/ and {pair[1]}/ do not know each other"


def full_rooms(files):
    counts = collections.Counter(map(os.path.dirname, files))
    for name, count in sorted(counts.items()):
        if count > MOST_FILES and not name.startswith(("docs", "third_party")):
            yield f"{name}/ has {count} files, more than {MOST_FILES}"


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
    core = [label for label in graph
            if is_ours(label) and in_wing(room(label), CORE_WINGS)]
    files = {*closure(graph, CORE), *itertools.chain.from_iterable(map(graph.get, core))}
    for label in sorted(filter(is_ours, files)):
        file = label[2:].replace(":", "/").lstrip("/")
        if not file.endswith((".h", ".cc")) or not os.path.exists(file):
            continue
        with open(file, encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if match := FOREIGN_INCLUDE.match(line):
                    yield (f"{file}:{number}: includes {match.group(1)}: the core "
                           "names no gRPC, Protobuf, MPI, CUDA or NCCL")


def main():
    product = query("deps(//... except attr(testonly, 1, //...))")
    libraries = query('kind("cc_library rule", //...)')
    doubles = labels('attr(testonly, 1, kind("cc_library rule", //...))')
    tests = labels('filter("_unit_sources$", kind("cc_library rule", //...))')
    libraries = {label: targets for label, targets in libraries.items()
                 if label not in tests}
    files = subprocess.run(["git", "ls-files"], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.split()
    wrong = [*wrong_arrows(libraries, doubles), *full_rooms(files),
             *foreign_repositories(product), *foreign_includes(product)]
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
