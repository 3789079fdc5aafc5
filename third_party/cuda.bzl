"""The CUDA toolkit and NCCL's header, which the build does without."""

load(":unwanted.bzl", "is_unwanted")

# C++20 in device code.
_OLDEST_CUDA = 12

# ncclCommInitRankConfig, ncclCommFinalize and ncclInProgress.
_OLDEST_NCCL = (2, 14)

_BUILD = """
package(default_visibility = ["//visibility:public"])

# found.cc says what was found, for gpu/runtime/cuda_found.h; toolkit.txt changes when
# the toolkit does.
exports_files(["found.cc", "toolkit.txt"])

cc_library(
    name = "cudart",
    srcs = glob(["lib/libcudart_static.a"], allow_empty = True),
    hdrs = glob(
        ["include/*.h", "include/*.hpp", "include/crt/*"],
        exclude = ["include/nccl*.h"],
        allow_empty = True,
    ),
    includes = ["include"],
    linkopts = {linkopts},
)

# Only to compile with: a program opens the library itself when it runs.
cc_library(
    name = "nccl_headers",
    hdrs = glob(["nccl/nccl.h"], allow_empty = True),
    includes = ["nccl"],
)
"""

_INSTALLED = """
HAS_CUDA = {has_cuda}
WITH_CUDA = {with_cuda}
HAS_NCCL = {has_nccl}
WITH_NCCL = {with_nccl}
CUDA_ROOT = "{root}"
"""

_FOUND = """#include "gpu/runtime/cuda_found.h"

namespace tutti {{

const char* CudaFound() {{ return "{cuda}"; }}
const char* NcclFound() {{ return "{nccl}"; }}

}}  // namespace tutti
"""

def _number_after(text, words):
    """The number that follows `words` in `text`, or 0."""
    rest = text.partition(words)[2].lstrip(" ")
    for end in range(len(rest)):
        if not rest[end].isdigit():
            return int(rest[:end]) if end > 0 else 0
    return int(rest) if rest else 0

def _refusal(ctx, nvcc):
    """What nvcc says where it does not take the host's compiler, or nothing."""
    compiler = ctx.which(ctx.os.environ.get("CC", "gcc"))
    bindir = ["--compiler-bindir={}".format(compiler)] if compiler else []
    ctx.file("empty.cu", "")
    tried = ctx.execute([nvcc, "-std=c++20", "-c", "empty.cu", "-o", "empty.o"] + bindir)
    if tried.return_code == 0:
        return ""
    lines = (tried.stderr + tried.stdout).splitlines()
    told = [line for line in lines if "error" in line] or lines or ["nothing"]
    return told[0].replace("\\", "/").replace("\"", "'")

def _toolkit(ctx):
    """The toolkit's folder, version, library and why it cannot be used."""
    variables = [
        name
        for name in ["CUDA_PATH", "CUDA_HOME"]
        if ctx.os.environ.get(name, "")
    ]
    root = ctx.os.environ[variables[0]] if variables else "/usr/local/cuda"
    place = root + (" (of {})".format(variables[0]) if variables else "")
    libraries = [
        "{}/{}/libcudart_static.a".format(root, folder)
        for folder in ["lib64", "lib"]
    ]
    library = [path for path in libraries if ctx.path(path).exists]
    header = root + "/include/cuda_runtime_api.h"
    needed = [root + "/bin/nvcc", header]
    missing = [path for path in needed if not ctx.path(path).exists]
    missing += [] if library else libraries[:1]
    nothing = struct(root = "", place = "", version = 0, library = "")
    if is_unwanted(ctx, "cuda"):
        return nothing, "TUTTI_WITHOUT names it"
    if not ctx.path(root).exists:
        return nothing, "there is no folder {}; CUDA_PATH may name another".format(place)
    if missing:
        return nothing, "{} has no {}".format(place, ", no ".join([
            path[len(root) + 1:]
            for path in missing
        ]))
    version = _number_after(ctx.read(header), "#define CUDART_VERSION")
    if version // 1000 < _OLDEST_CUDA:
        return nothing, "{} has CUDA {}.{}, and {}.0 is the oldest that will do".format(
            place,
            version // 1000,
            version % 1000 // 10,
            _OLDEST_CUDA,
        )
    refusal = _refusal(ctx, root + "/bin/nvcc")
    if refusal:
        return nothing, "{} cannot compile for this host: {}".format(place, refusal)
    return struct(root = root, place = place, version = version, library = library[0]), ""

def _nccl(ctx, toolkit):
    """The folder of nccl.h, and its version or why it cannot be used."""
    if not toolkit.root:
        return "", "not looked for without CUDA"
    if is_unwanted(ctx, "nccl"):
        return "", "TUTTI_WITHOUT names it"
    folders = [toolkit.root + "/include", "/usr/include"]
    old = []
    for folder in folders:
        if not ctx.path(folder + "/nccl.h").exists:
            continue
        text = ctx.read(folder + "/nccl.h")
        version = [
            _number_after(text, "#define NCCL_" + part)
            for part in ["MAJOR", "MINOR", "PATCH"]
        ]
        name = "{}.{}.{}".format(*version)
        if tuple(version[:2]) >= _OLDEST_NCCL:
            return folder, "header {} in {}".format(name, folder)
        old.append("{} has the header of NCCL {}".format(folder, name))
    if old:
        return "", "{}, and {}.{} is the oldest that will do".format(
            ", ".join(old),
            *_OLDEST_NCCL
        )
    return "", "there is no nccl.h in " + " or ".join(folders)

def _cuda(ctx):
    toolkit, why_not = _toolkit(ctx)
    nccl, nccl_text = _nccl(ctx, toolkit)
    cuda_text = why_not
    if toolkit.root:
        cuda_text = "{}.{} in {}".format(
            toolkit.version // 1000,
            toolkit.version % 1000 // 10,
            toolkit.place,
        )
        ctx.symlink(toolkit.root + "/include", "include")
        ctx.symlink(toolkit.library, "lib/libcudart_static.a")
    if nccl:
        ctx.symlink(nccl + "/nccl.h", "nccl/nccl.h")
    incompatible = ["@platforms//:incompatible"]
    ctx.file("installed.bzl", _INSTALLED.format(
        has_cuda = bool(toolkit.root),
        with_cuda = [] if toolkit.root else incompatible,
        has_nccl = bool(nccl),
        with_nccl = [] if nccl else incompatible,
        root = toolkit.root,
    ))
    nvcc = ctx.execute([toolkit.root + "/bin/nvcc", "--version"]).stdout if toolkit.root else ""
    ctx.file("toolkit.txt", cuda_text + "\n" + nvcc)
    ctx.file("found.cc", _FOUND.format(cuda = cuda_text, nccl = nccl_text))
    ctx.file("BUILD", _BUILD.format(
        linkopts = ["-ldl", "-lrt"] if toolkit.root else [],
    ))

# The repository @cuda. The toolkit is looked for where CUDA_PATH says, else
# CUDA_HOME, else in /usr/local/cuda. Targets that need it say so by
#
#     load("@cuda//:installed.bzl", "WITH_CUDA")
#     target_compatible_with = WITH_CUDA
#
# and are skipped without it; those that can use it, by HAS_CUDA, a bool, among
# their dependencies. NCCL's header likewise, by WITH_NCCL and HAS_NCCL. What
# TUTTI_WITHOUT names, "cuda" or "nccl", counts as missing. Looked up when Bazel
# starts, when one of these changes and by `bazel sync --configure`.
cuda = repository_rule(
    implementation = _cuda,
    configure = True,
    environ = ["CC", "CUDA_HOME", "CUDA_PATH", "TUTTI_WITHOUT"],
    local = True,
)
