"""The repositories that Tutti is built of."""

load(":cuda.bzl", "cuda")
load(":optional_library.bzl", "optional_library")

# Folders here, which give the distribution's libraries the labels that their own
# projects use. The last two are asked for by Bazel's own tools; small stand-ins
# keep the build offline.
_FOLDERS = [
    "asio",
    "cli11",
    "com_github_google_benchmark",
    "com_github_google_highway",
    "com_github_grpc_grpc",
    "com_google_absl",
    "com_google_googletest",
    "com_google_protobuf",
    "nlohmann_json",
    "openssl",
    "remote_coverage_tools",
    "rules_cc",
]

# What Bazel asks for as well, from its own packages.
_OF_BAZEL = {
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
    "platforms": "/usr/share/bazel/tools/platforms",
    "rules_java": "/usr/share/bazel/rules/java",
    "rules_proto": "/usr/share/bazel/rules/proto",
}

# The build does without these where they are not installed.
_OPTIONAL = {
    # What benchmarks compare with.
    "gloo": {
        "header": "/usr/include/gloo/config.h",
        "linkopts": ["-lgloo"],
    },
    # For remote/mpi, and what benchmarks compare with. Without the C++ names of
    # old, whose library nobody links.
    "openmpi": {
        "defines": ["OMPI_SKIP_MPICXX"],
        "header": "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h",
        "include": "/usr/lib/x86_64-linux-gnu/openmpi/include",
        "linkopts": ["-lmpi"],
    },
    # For examples/flow_graph.
    "tbb": {
        "header": "/usr/include/oneapi/tbb/flow_graph.h",
        "linkopts": ["-ltbb"],
    },
}

def tutti_repositories(path = "."):
    """For a WORKSPACE: names all repositories that Tutti's labels lead to.

    Those that the WORKSPACE has named before stay as they are, so that an
    embedder can point the same labels at other copies.

    Args:
      path: Tutti's folder, as local_repository takes it.
    """
    known = native.existing_rules()
    folders = {name: path + "/third_party/" + name for name in _FOLDERS}
    folders.update(_OF_BAZEL)
    for name, folder in folders.items():
        if name not in known:
            native.local_repository(name = name, path = folder)
    for name, library in _OPTIONAL.items():
        if name not in known:
            optional_library(name = name, **library)
    if "cuda" not in known:
        cuda(name = "cuda")  # For gpu/.
