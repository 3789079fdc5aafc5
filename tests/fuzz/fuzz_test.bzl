"""Targets for a fuzzer, which are tests without one."""

def tutti_fuzz_test(name, deps, num_mutations = 50000):
    """What a peer sends, as a fuzz target (tests/fuzz/fuzz_target.h).

    A test that runs the seeds and `num_mutations` inputs bred from them; with
    --config=fuzz, a libFuzzer program, which `./dev fuzz` runs.

    Args:
      name: of the target, and of its source, which defines
        LLVMFuzzerTestOneInput() and FuzzSeeds().
      deps: of the source, besides fuzz_target and fuzz_input.
      num_mutations: inputs of the test, beyond the seeds.
    """
    native.cc_test(
        name = name,
        size = "small",
        srcs = [name + ".cc"],
        args = [str(num_mutations)],
        linkopts = select({
            "//tests/fuzz:with_fuzzer": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        tags = ["fuzz"],
        deps = deps + ["//tests/fuzz:fuzz_input", "//tests/fuzz:fuzz_target"] + select({
            "//tests/fuzz:with_fuzzer": ["//tests/fuzz:fuzz_engine"],
            "//conditions:default": ["//tests/fuzz:fuzz_driver"],
        }),
    )
