#ifndef TUTTI_TOOLS_BASE_ALGORITHM_NAMES_H_
#define TUTTI_TOOLS_BASE_ALGORITHM_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {

// Errors: UsageError listing the known names.
absl::Status CheckAlgorithm(const CollectiveRegistry& registry,
                            absl::string_view name);

// Errors: also UsageError if the algorithm does not run such a collective
// on CPU devices, listing those that do, or cannot be made of its parts. One
// that leaves it to a library runs it where that connects the processes.
absl::Status CheckAlgorithm(const CollectiveRegistry& registry,
                            absl::string_view name, CollectiveType type);

// The algorithms that run such a collective on CPU devices by themselves, by
// name.
std::vector<std::string> AlgorithmsFor(const CollectiveRegistry& registry,
                                       CollectiveType type);

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_ALGORITHM_NAMES_H_
