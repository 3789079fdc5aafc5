"""How a program is linked that runs on other distributions."""

# Abseil's static libraries, all of them, since each leaves to the linker what
# it needs of others. Those of threads, time and text that a program needs.
_ABSEIL = [
    "bad_any_cast_impl",
    "bad_optional_access",
    "bad_variant_access",
    "base",
    "city",
    "civil_time",
    "cord",
    "cord_internal",
    "cordz_functions",
    "cordz_handle",
    "cordz_info",
    "debugging_internal",
    "demangle_internal",
    "exponential_biased",
    "graphcycles_internal",
    "hash",
    "hashtablez_sampler",
    "int128",
    "log_severity",
    "low_level_hash",
    "malloc_internal",
    "periodic_sampler",
    "random_distributions",
    "random_internal_platform",
    "random_internal_pool_urbg",
    "random_internal_randen",
    "random_internal_randen_hwaes",
    "random_internal_randen_hwaes_impl",
    "random_internal_randen_slow",
    "random_internal_seed_material",
    "random_seed_gen_exception",
    "random_seed_sequences",
    "raw_hash_set",
    "raw_logging_internal",
    "spinlock_wait",
    "stacktrace",
    "status",
    "statusor",
    "str_format_internal",
    "strerror",
    "strings",
    "strings_internal",
    "symbolize",
    "synchronization",
    "throw_delegate",
    "time",
    "time_zone",
]

# What the distribution packages as static libraries comes from these, and
# nothing of the shared ones is used; the symbols are ours alone. Highway is
# packaged as a shared library only: it is looked for beside the program. The
# libraries of C and GCC are the target's.
RELOCATABLE_LINKOPTS = [
    "-Wl,--as-needed",
    "-Wl,--start-group",
] + ["-l:libabsl_{}.a".format(name) for name in _ABSEIL] + [
    "-Wl,--end-group",
    "-l:libstdc++.a",
    "-Wl,--exclude-libs,ALL",
    "-Wl,-rpath,'$$ORIGIN'",
]
