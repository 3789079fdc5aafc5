#ifndef TUTTI_TOOLS_COLLECTIVE_OPTIONS_H_
#define TUTTI_TOOLS_COLLECTIVE_OPTIONS_H_

#include "CLI/CLI.hpp"
#include "tools/collective_spec.h"

namespace tutti {

// Adds COLLECTIVE, --reduction, --root and --permutation, which fill `words`.
// `words` outlives the parsing.
void AddCollectiveOptions(CLI::App* app, CollectiveWords* words);

}  // namespace tutti

#endif  // TUTTI_TOOLS_COLLECTIVE_OPTIONS_H_
