"""Libraries of CUDA device code, compiled by nvcc."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@cuda//:installed.bzl", "CUDA_ROOT", "WITH_CUDA")

# What runs on Ampere and Hopper, and what the driver compiles for what comes
# after them. Arithmetic is as written: a product and a sum are two roundings.
_NVCC_FLAGS = [
    "-std=c++20",
    "-O2",
    "--fmad=false",
    "--expt-relaxed-constexpr",
    "--generate-code=arch=compute_80,code=sm_80",
    "--generate-code=arch=compute_90,code=[sm_90,compute_90]",
    "--Werror=all-warnings",
    "--compiler-options=-Wall,-Wextra,-Werror,-fPIC,-fno-strict-aliasing",
]

def _compile(ctx, source, context, compiler):
    output = ctx.actions.declare_file("{}/{}.o".format(
        ctx.label.name,
        source.basename[:-len(".cu")],
    ))
    arguments = ctx.actions.args()
    arguments.add_all(_NVCC_FLAGS)
    arguments.add("--compiler-bindir=" + compiler)
    arguments.add_all(context.defines, format_each = "-D%s")
    arguments.add_all(context.quote_includes, format_each = "-I%s")
    arguments.add_all(context.includes, format_each = "-I%s")
    arguments.add_all(context.system_includes, format_each = "-isystem=%s")
    arguments.add_all(["-x", "cu", "-c"])
    arguments.add(source)
    arguments.add("-o", output)
    ctx.actions.run(
        executable = CUDA_ROOT + "/bin/nvcc",
        arguments = [arguments],
        inputs = depset([source, ctx.file._toolkit] + ctx.files.hdrs, transitive = [context.headers]),
        outputs = [output],
        env = {"PATH": "/usr/bin:/bin"},
        mnemonic = "CudaCompile",
        progress_message = "Compiling " + source.short_path,
    )
    return output

def _cuda_objects(ctx):
    context = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    compiler = find_cpp_toolchain(ctx).compiler_executable
    return DefaultInfo(files = depset([
        _compile(ctx, source, context, compiler)
        for source in ctx.files.srcs
    ]))

_objects = rule(
    implementation = _cuda_objects,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "hdrs": attr.label_list(allow_files = [".h"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "_toolkit": attr.label(
            default = "@cuda//:toolkit.txt",
            allow_single_file = True,
        ),
        "_cc_toolchain": attr.label(
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_library(name, srcs, hdrs = [], deps = [], **kwargs):
    """A cc_library of device code, skipped where there is no CUDA.

    The code on either side is not instrumented by sanitizers: it only launches.

    Args:
      name: of the target.
      srcs: .cu files.
      hdrs: headers of ours; they may include CUDA's.
      deps: cc_library targets, at least one of the sources' own repository,
        whose headers are then found from its root. CUDA's runtime is one anyway.
      **kwargs: as for cc_library.
    """
    _objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        target_compatible_with = WITH_CUDA,
        visibility = ["//visibility:private"],
        deps = deps,
    )
    native.cc_library(
        name = name,
        srcs = [name + "_objects"],
        hdrs = hdrs,
        linkstatic = True,  # As the runtime of CUDA is.
        target_compatible_with = WITH_CUDA,
        deps = deps + ["@cuda//:cudart"],
        **kwargs
    )
