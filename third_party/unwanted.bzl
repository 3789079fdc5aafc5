"""Libraries that the build can do without, and is told to."""

_KNOWN = ["cuda", "gloo", "nccl", "openmpi", "tbb"]

def is_unwanted(ctx, library):
    """Whether TUTTI_WITHOUT, as in "openmpi,tbb", names the library."""
    if library not in _KNOWN:
        fail("unwanted.bzl does not know {}".format(library))
    words = ctx.os.environ.get("TUTTI_WITHOUT", "").split(",")
    names = [word.strip() for word in words if word.strip()]
    unknown = [name for name in names if name not in _KNOWN]
    if unknown:
        fail("TUTTI_WITHOUT names {}; known: {}".format(
            ", ".join(unknown),
            ", ".join(_KNOWN),
        ))
    return library in names
