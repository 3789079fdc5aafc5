#include "tools/base/algorithm_names.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status_macros.h"
#include "framework/choice/did_you_mean.h"
#include "framework/choice/parts.h"
#include "tools/base/exit_status.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/selection.h"

namespace tutti {
namespace {

// Whether the algorithm can run the collective if `delegate` connects the
// processes.
bool Serves(const CollectiveRegistry& registry, absl::string_view name,
            CollectiveType type, absl::string_view device_type,
            const std::string& delegate = "") {
  const GroupLayout layout = GroupLayout::Uniform(1, 1);
  return SelectImplementation(registry,
                              {.type = type,
                               .layout = layout,
                               .device_type = std::string(device_type),
                               .one_process = true,
                               .delegate = delegate,
                               .implementation = std::string(name)})
      .ok();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CollectiveFactory>> FindAlgorithm(
    const CollectiveRegistry& registry, absl::string_view name) {
  auto factory = registry.Find(name);
  if (factory.ok()) return factory;
  std::vector<std::string> known;
  for (const auto& entry : registry.List()) known.push_back(entry.name);
  return UsageError(absl::StrCat("unknown algorithm \"", name, "\"",
                                 DidYouMean(name, known),
                                 "; known: ", absl::StrJoin(known, ", ")));
}

absl::Status CheckAlgorithm(const CollectiveRegistry& registry,
                            absl::string_view name, CollectiveType type,
                            absl::string_view device_type) {
  ASSIGN_OR_RETURN(const auto factory, FindAlgorithm(registry, name));
  const ImplementationTraits& traits = factory->traits();
  if (Serves(registry, name, type, device_type, traits.delegate)) {
    return absl::OkStatus();
  }
  const std::string why_not = WhyNotOfParts(traits);
  if (!why_not.empty() && absl::c_linear_search(traits.collectives, type)) {
    return UsageError(absl::StrCat(name, " ", why_not));
  }
  const std::vector<std::string> others =
      AlgorithmsFor(registry, type, device_type);
  return UsageError(
      absl::StrCat(name, " does not do ", Name(type), " on ", device_type,
                   " devices; these do: ",
                   others.empty() ? "none" : absl::StrJoin(others, ", ")));
}

std::vector<std::string> AlgorithmsFor(const CollectiveRegistry& registry,
                                       CollectiveType type,
                                       absl::string_view device_type) {
  std::vector<std::string> names;
  for (const CollectiveRegistry::Entry& entry : registry.List()) {
    if (Serves(registry, entry.name, type, device_type)) {
      names.push_back(entry.name);
    }
  }
  return names;
}

}  // namespace tutti
