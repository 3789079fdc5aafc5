"""Libraries that the build does without where they are not installed."""

load(":unwanted.bzl", "is_unwanted")

_BUILD = """
cc_library(
    name = "{name}",
    defines = {defines},
    hdrs = glob(["include/**"], allow_empty = True),
    includes = ["include"],
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _optional_library(ctx):
    is_installed = not is_unwanted(ctx, ctx.name) and ctx.path(ctx.attr.header).exists
    needs = [] if is_installed else ["@platforms//:incompatible"]
    if is_installed and ctx.attr.include:
        ctx.symlink(ctx.attr.include, "include")
    ctx.file("installed.bzl", "HAS_{0} = {1}\nWITH_{0} = {2}\n".format(
        ctx.name.upper(),
        is_installed,
        needs,
    ))
    ctx.file("BUILD", _BUILD.format(
        name = ctx.name,
        defines = ctx.attr.defines,
        linkopts = ctx.attr.linkopts if is_installed else [],
    ))

# The library @NAME//:NAME of the system, whose headers are where the compiler
# finds them, or in a folder of their own. Targets that need it say so by
#
#     load("@NAME//:installed.bzl", "WITH_NAME")
#     target_compatible_with = WITH_NAME
#
# and are skipped without it; those that can use it, by HAS_NAME, a bool, among
# their dependencies. Those that TUTTI_WITHOUT names (unwanted.bzl) count as
# missing. Looked up when Bazel starts, when that changes and by
# `bazel sync --configure`.
optional_library = repository_rule(
    implementation = _optional_library,
    attrs = {
        "header": attr.string(
            mandatory = True,
            doc = "A file that is there if the library is installed.",
        ),
        "include": attr.string(
            doc = "The folder of the headers, if it is not a usual one.",
        ),
        "defines": attr.string_list(),
        "linkopts": attr.string_list(mandatory = True),
    },
    configure = True,
    environ = ["TUTTI_WITHOUT"],
    local = True,
)
