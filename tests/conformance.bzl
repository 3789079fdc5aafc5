"""The test that every implementation of a collective has to pass."""

def _arguments(tier):
    if tier == "default":
        return select({
            str(Label("//tests:with_sanitizer")): ["--quick"],
            "//conditions:default": [],
        })
    if tier not in ["quick", "deep"]:
        fail("tier is quick, default or deep, not " + tier)
    return ["--" + tier]

def tutti_conformance_test(
        name,
        deps,
        implementation = None,
        tier = "default",
        tags = [],
        **kwargs):
    """Proves a registered implementation, or all that run on CPU devices.

    Runs every collective that the implementation's traits name, on CPU devices
    in one process: groups, lengths, dtypes, placements, subdivisions, roots and
    reductions with each other, failures at every stage, many orders of work and
    layouts for what its determinism class promises, and, where it is a
    schedule, the symbolic proof.

    | tier      | choices                               | proof to | time         |
    |-----------|---------------------------------------|----------|--------------|
    | "quick"   | a few                                 | 8 ranks  | 1 s          |
    | "default" | all, each pair of two at least once   | 16 ranks | 4 s          |
    | "deep"    | all with each other, more large sizes | 64 ranks | 5 s to 2 min |

    With sanitizers "default" stands for "quick". Tests of the tier "deep" are
    tagged "deep" and "no-sanitizer", the others "concurrency".

    The implementation does its work on the caller's threads or the
    environment's work queue: a call that has not ended when no work is left
    counts as hanging.

    From another workspace:

        load("@tutti//tests:conformance.bzl", "tutti_conformance_test")

        tutti_conformance_test(
            name = "direct_reduce_conformance_test",
            implementation = "DirectReduce",
            deps = [":direct_reduce"],
        )

    Args:
      name: of the test.
      deps: the libraries that register implementations (alwayslink).
      implementation: the name under which it is registered; all if None.
      tier: how thorough the test is.
      tags: of the test.
      **kwargs: as in cc_test.
    """
    arguments = ["--implementation=" + implementation] if implementation else []
    is_deep = tier == "deep"
    native.cc_test(
        name = name,
        args = arguments + _arguments(tier),
        tags = tags + (["deep", "no-sanitizer"] if is_deep else ["concurrency"]),
        deps = deps + [str(Label("//tests/conformance:suite"))],
        **kwargs
    )
