"""The test that every implementation of a collective has to pass."""

def tutti_conformance_test(name, implementation, deps, shard_count = 4, tags = [], **kwargs):
    """Proves a registered implementation.

    Runs every collective that the implementation's traits name, on CPU devices
    in one process: groups, lengths, dtypes, placements, subdivisions, roots and
    reductions with each other, failures at every stage, a hundred orders of work
    and many layouts for what its determinism class promises, and, where it is a
    schedule, the symbolic proof. Makes two tests: NAME, and NAME_quick, a part
    of it that is also fit for sanitizers (tag "concurrency").

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
      implementation: the name under which it is registered.
      deps: the libraries that register it (alwayslink).
      shard_count: of NAME.
      tags: of both tests.
      **kwargs: for both tests, as in cc_test.
    """
    arguments = ["--implementation=" + implementation]
    all_deps = deps + [str(Label("//tests/conformance:suite"))]
    native.cc_test(
        name = name,
        args = arguments,
        shard_count = shard_count,
        tags = tags + ["no-sanitizer"],
        deps = all_deps,
        **kwargs
    )
    native.cc_test(
        name = name + "_quick",
        args = arguments + ["--quick"],
        tags = tags + ["concurrency"],
        deps = all_deps,
        **kwargs
    )
