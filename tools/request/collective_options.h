#ifndef TUTTI_TOOLS_REQUEST_COLLECTIVE_OPTIONS_H_
#define TUTTI_TOOLS_REQUEST_COLLECTIVE_OPTIONS_H_

#include <initializer_list>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "tools/request/collective_spec.h"

namespace tutti {

// Options that fill `words`, which outlives the parsing.

// COLLECTIVE and --reduction: which collective, whoever takes part.
void AddReductionOptions(CLI::App* app, CollectiveWords* words);

// --root and --permutation: who has which part in it, in a group of at most
// `max_ranks`.
void AddRoleOptions(CLI::App* app, int max_ranks, CollectiveWords* words);

// All of them, for groups that can run it.
void AddCollectiveOptions(CLI::App* app, CollectiveWords* words);

// A barrier has no data that `options` could speak of. Errors: UsageError if
// one of them was given with it.
absl::Status CheckOptionsOfBarrier(const CLI::App& app,
                                   const CollectiveWords& words,
                                   std::initializer_list<const char*> options);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_COLLECTIVE_OPTIONS_H_
