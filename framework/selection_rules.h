#ifndef TUTTI_FRAMEWORK_SELECTION_RULES_H_
#define TUTTI_FRAMEWORK_SELECTION_RULES_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/collective_type.h"
#include "framework/registry.h"

namespace tutti {

// Which implementation runs some collectives, whatever the cost model says.
struct SelectionRule {
  CollectiveType type = CollectiveType::kAllReduce;
  std::string layout;               // As GroupLayout::ToString(); empty: any.
  std::optional<bool> one_process;  // As in SelectionRequest; none: either.

  // Of the larger of one member's input and output; both ends included.
  int64_t min_bytes = 0;
  int64_t max_bytes = std::numeric_limits<int64_t>::max();

  std::string implementation;
  std::string where;  // "rules.json:12", for messages; may be empty.
};

// What was settled for a machine beforehand.
struct SelectionRules {
  // The first that matches, and whose implementation can serve, decides.
  std::vector<SelectionRule> rules;

  // CollectiveExecutorMgr::Options has it; none: as there.
  std::optional<int64_t> past_caches_from_bytes;
};

// Of rules that may be null.
inline std::optional<int64_t> PastCachesFromBytes(const SelectionRules* rules) {
  return rules == nullptr ? std::nullopt : rules->past_caches_from_bytes;
}

// Errors: INVALID_ARGUMENT naming the rule, and the other one where there are
// two: an implementation that is not registered, cannot be made of its parts,
// or is not for this collective or these processes; a layout of one task, which
// is one process, for several; a range without sizes, or without that of a
// barrier, which is 0; ranges of the same collective, layout and processes that
// overlap; a rule that is never reached, because those before it take all that
// it matches. These two are none where a rule before cannot serve some groups
// for their devices and processes, or may be asked for what it does not do and
// this one does.
absl::Status CheckRules(const CollectiveRegistry& registry,
                        const SelectionRules& rules);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_SELECTION_RULES_H_
