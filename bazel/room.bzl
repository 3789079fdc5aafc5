"""Rooms: the folders of this tree, each a library with one test program."""

_ABSEIL = ["@com_google_absl//absl/" + name for name in [
    "algorithm:container",
    "base:core_headers",
    "cleanup",
    "container:btree",
    "container:fixed_array",
    "container:flat_hash_map",
    "container:flat_hash_set",
    "container:inlined_vector",
    "container:node_hash_map",
    "functional:any_invocable",
    "functional:function_ref",
    "hash",
    "memory",
    "numeric:bits",
    "numeric:int128",
    "random",
    "status",
    "status:statusor",
    "strings",
    "strings:cord",
    "strings:str_format",
    "synchronization",
    "time",
    "types:optional",
    "types:span",
]]

_ALL = [str(Label("//include:tutti"))] + _ABSEIL

def _taken():
    """The sources that targets above in this BUILD file have."""
    files = {}
    for rule in native.existing_rules().values():
        for attribute in ["srcs", "hdrs", "textual_hdrs"]:
            for label in rule.get(attribute, []):
                files[label.lstrip(":")] = True
    return files

def _with_suffix(files, suffixes):
    return [file for file in files if any([file.endswith(suffix) for suffix in suffixes])]

def _base():
    return native.package_name().split("/")[-1]

def _unit(name, srcs, **kwargs):
    """A source NAME.cc that includes `srcs`; they become textual headers of NAME_sources."""
    native.cc_library(
        name = name + "_sources",
        textual_hdrs = srcs,
        visibility = ["//visibility:private"],
        **kwargs
    )
    native.genrule(
        name = name,
        outs = [name + ".cc"],
        cmd = "printf '#include \"%s\"\\n' {} > $@".format(
            " ".join([native.package_name() + "/" + src for src in sorted(srcs)]),
        ),
        visibility = ["//visibility:private"],
        **kwargs
    )

def room(
        name = None,
        files = None,
        exclude = [],
        reincluded = [],
        separate = False,
        deps = [],
        testonly = None,
        **kwargs):
    """A library of all sources of the folder that no target above has.

    The sources are compiled as one unit, as their headers cost more to compile than
    they do. Names in anonymous namespaces are therefore unique within a room.

    Tests (*_test.cc) and programs of tests (*_test_rank.cc) are not among them.
    Abseil and the public headers (include/) are dependencies of every room.

    Args:
      name: of the library; the folder's by default.
      files: names without ending; only their sources. For a part of the room that
        needs what the rest does not, or that only tests may use.
      exclude: sources that belong to no target in this configuration.
      reincluded: sources that include themselves once for each instruction set.
      separate: compiles each source by itself. For plug-ins, which each have a Plan(),
        Traits() or kHelp.
      deps: other rooms and libraries.
      testonly: as in cc_library.
      **kwargs: as in cc_library.
    """
    if files == None:
        taken = _taken()
        patterns = ["*"]
    else:
        taken = {}
        patterns = files
    sources = [
        file
        for file in native.glob(
            [pattern + ending for pattern in patterns for ending in [".h", ".cc"]],
            exclude = exclude + ["*_test.cc", "*_test_rank.cc"],
            allow_empty = True,
        )
        if file not in taken
    ]
    name = name or _base()
    srcs = [file for file in _with_suffix(sources, [".cc"]) if file not in reincluded]
    if len(srcs) > 1 and not separate:
        _unit(name + "_unit", srcs, testonly = testonly)
        deps = deps + [":" + name + "_unit_sources"]
        srcs = [name + "_unit.cc"]
    native.cc_library(
        name = name,
        testonly = testonly,
        srcs = srcs + reincluded,
        hdrs = _with_suffix(sources, [".h"]),
        textual_hdrs = reincluded,
        deps = deps + _ALL,
        **kwargs
    )

def room_test(name = None, srcs = None, deps = [], size = "medium", **kwargs):
    """One program of all tests of the room (*_test.cc), compiled as one unit.

    The headers that every test includes cost more to compile than the test. Each
    source therefore has a namespace of its own, named after it.

    Args:
      name: of the test; by default the room's, with _test.
      srcs: sources; by default all that no target above has.
      deps: besides the room.
      size: as in cc_test.
      **kwargs: as in cc_test.
    """
    name = name or _base() + "_test"
    if srcs == None:
        taken = _taken()
        srcs = [
            file
            for file in native.glob(["*_test.cc"], allow_empty = True)
            if file not in taken
        ]
    _unit(name + "_unit", srcs, testonly = True)
    room_library = [":" + _base()] if _base() in native.existing_rules() else []
    native.cc_test(
        name = name,
        size = size,
        srcs = [name + "_unit.cc"],
        deps = deps + room_library + [
            ":" + name + "_unit_sources",
            "@com_google_googletest//:gtest_main",
        ] + _ALL,
        **kwargs
    )
