#ifndef TUTTI_TOOLS_REQUEST_COLLECTIVE_OPTIONS_H_
#define TUTTI_TOOLS_REQUEST_COLLECTIVE_OPTIONS_H_

#include <initializer_list>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tools/request/collective_spec.h"

namespace tutti {

// Options that fill `words`, which must outlive the parsing.

// Adds COLLECTIVE and --reduction, which do not depend on the ranks.
void AddReductionOptions(CLI::App* app, CollectiveWords* words);

// Adds --root and --permutation, which assign roles to ranks, in a group of at
// most `max_ranks`.
void AddRoleOptions(CLI::App* app, int max_ranks, CollectiveWords* words);

// Adds all four options.
void AddCollectiveOptions(CLI::App* app, CollectiveWords* words);

// Checks the options of a barrier, which has no data. Errors: UsageError if one
// of `options`, which describe data, was given with a barrier.
absl::Status CheckOptionsOfBarrier(const CLI::App& app,
                                   const CollectiveWords& words,
                                   std::initializer_list<const char*> options);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_COLLECTIVE_OPTIONS_H_
