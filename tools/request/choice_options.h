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

// What the command line says of the choice among implementations, apart from a
// name.
struct ChoiceOptions {
  Determinism determinism = Determinism::kNotGuaranteed;  // Wanted at least.
  std::string rules;                                      // A file, or empty.
  std::vector<int> rank_list;  // As CollImplDetails::rank_list.
};

// --determinism and --rules. `options` outlives the parsing.
void AddChoiceOptions(CLI::App* app, ChoiceOptions* options);

// --rank-list, of commands that run what was chosen.
void AddRankListOption(CLI::App* app, ChoiceOptions* options);

// The rules of the file that --rules names, else the variable TUTTI_RULES; null
// if neither does. Errors: UsageError saying what is wrong with the file; one
// that cannot be read.
absl::StatusOr<std::shared_ptr<const SelectionRules>> TakeRules(
    const ChoiceOptions& options, const Variables& variables,
    const CollectiveRegistry& registry);

}  // namespace tutti

#endif  // TUTTI_TOOLS_REQUEST_CHOICE_OPTIONS_H_
