#include "tools/algorithm_names.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "tools/exit_status.h"

namespace tutti {

absl::Status CheckAlgorithm(const CollectiveRegistry& registry,
                            absl::string_view name) {
  const absl::Status status = registry.Find(name).status();
  return status.ok() ? status : UsageError(status.message());
}

std::vector<std::string> AlgorithmsFor(const CollectiveRegistry& registry,
                                       CollectiveType type) {
  std::vector<std::string> names;
  for (const CollectiveRegistry::Entry& entry : registry.List()) {
    const ImplementationTraits& traits = entry.factory->traits();
    const bool runs_here = traits.device_types.empty() ||
                           absl::c_linear_search(traits.device_types, "CPU");
    if (runs_here && absl::c_linear_search(traits.collectives, type)) {
      names.push_back(entry.name);
    }
  }
  return names;
}

}  // namespace tutti
