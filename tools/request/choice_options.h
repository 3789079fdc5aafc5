#ifndef TUTTI_TOOLS_REQUEST_CHOICE_OPTIONS_H_
#define TUTTI_TOOLS_REQUEST_CHOICE_OPTIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "tools/base/environment_variables.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/selection.h"

namespace tutti {

// Command-line options that control the choice of an implementation, apart from
// its name.
struct ChoiceOptions {
  // Lowest level accepted.
  Determinism determinism = Determinism::kNotGuaranteed;
  std::string rules;           // Path of a file, or empty.
  std::vector<int> rank_list;  // As CollImplDetails::rank_list.
  std::string device_type = "CPU";
};

// Adds --device, whose value becomes a device type. `device_type` must outlive
// the parsing.
void AddDeviceOption(CLI::App* app, std::string* device_type);

// Adds --device, --determinism and --rules. `options` must outlive the parsing.
void AddChoiceOptions(CLI::App* app, ChoiceOptions* options);

// Adds --rank-list, for commands that run the chosen implementation.
void AddRankListOption(CLI::App* app, ChoiceOptions* options);

// Rules from the file that --rules names, else from the file that TUTTI_RULES
// names; null if neither is set. Errors: UsageError that describes the mistake
// in the file; the error of a file that cannot be read.
absl::StatusOr<std::shared_ptr<const SelectionRules>> TakeRules(
    const ChoiceOptions& options, const Variables& variables,
    const CollectiveRegistry& registry);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_CHOICE_OPTIONS_H_
