#ifndef TUTTI_TOOLS_BASE_ALGORITHM_NAMES_H_
#define TUTTI_TOOLS_BASE_ALGORITHM_NAMES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {

// Errors: UsageError listing the known names.
absl::StatusOr<std::shared_ptr<const CollectiveFactory>> FindAlgorithm(
    const CollectiveRegistry& registry, absl::string_view name);

// Errors: those of FindAlgorithm(); also UsageError if the algorithm does not
// run this collective on such devices (the message lists the algorithms that
// do), or if it cannot be built from its parts. An algorithm that leaves the
// collective to a library passes: it runs if the library connects the
// processes.
absl::Status CheckAlgorithm(const CollectiveRegistry& registry,
                            absl::string_view name, CollectiveType type,
                            absl::string_view device_type = "CPU");

// Names of the algorithms that run the collective on such devices without a
// library between processes.
std::vector<std::string> AlgorithmsFor(const CollectiveRegistry& registry,
                                       CollectiveType type,
                                       absl::string_view device_type = "CPU");

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_ALGORITHM_NAMES_H_
