"""Libraries that the build does without where they are not installed."""

_BUILD = """
cc_library(
    name = "{name}",
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _optional_library(ctx):
    is_installed = ctx.path(ctx.attr.header).exists
    needs = [] if is_installed else ["@platforms//:incompatible"]
    ctx.file("installed.bzl", "WITH_{} = {}\n".format(ctx.name.upper(), needs))
    ctx.file("BUILD", _BUILD.format(
        name = ctx.name,
        linkopts = ctx.attr.linkopts if is_installed else [],
    ))

# The library @NAME//:NAME of the system, whose headers are where the compiler
# finds them. Targets that need it say so by
#
#     load("@NAME//:installed.bzl", "WITH_NAME")
#     target_compatible_with = WITH_NAME
#
# and are skipped without it. Looked up when Bazel starts, and by
# `bazel sync --configure`.
optional_library = repository_rule(
    implementation = _optional_library,
    attrs = {
        "header": attr.string(
            mandatory = True,
            doc = "A file that is there if the library is installed.",
        ),
        "linkopts": attr.string_list(mandatory = True),
    },
    configure = True,
    local = True,
)
