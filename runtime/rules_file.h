#ifndef TUTTI_RUNTIME_RULES_FILE_H_
#define TUTTI_RUNTIME_RULES_FILE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/registry.h"
#include "framework/selection_rules.h"

namespace tutti {

// Rules for the choice of implementations, from a JSON file such as
//   {"version": 1,
//    "rules": [{"collective": "all_reduce", "layout": "1x8",
//               "one_process": true, "max_bytes": 65536,
//               "algorithm": "LocalReduce"}],
//    "past_caches_from_bytes": 16777216}
// docs/rules.md says what each key means. Pure but for reading the file.

// `text` is in the file, and errors and rules call it by its `path`. Errors:
// INVALID_ARGUMENT with path, line and reason for what is no such JSON, for
// unknown keys and values, and those of CheckRules().
absl::StatusOr<std::shared_ptr<const SelectionRules>> ParseRulesFile(
    const std::string& text, const std::string& path,
    const CollectiveRegistry& registry);

// Errors also: a file that cannot be read, or has more than 16 MiB.
absl::StatusOr<std::shared_ptr<const SelectionRules>> ReadRulesFile(
    const std::string& path, const CollectiveRegistry& registry);

// Such a file, each rule in a line; `where` is not in it.
std::string RulesFileText(const SelectionRules& rules);

}  // namespace tutti

#endif  // TUTTI_RUNTIME_RULES_FILE_H_
