#ifndef TUTTI_SELECTION_H_
#define TUTTI_SELECTION_H_

// Selection of implementations: rules for a machine, from a file or from code,
// and the choice by name, rule and predicted cost, with the reasons. Pure
// except for reading the file: equal requests get equal choices.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Implementation for some collectives, whatever the cost model predicts.
struct SelectionRule {
  CollectiveType type = CollectiveType::kAllReduce;
  std::string layout;               // See GroupLayout::ToString(); empty: any.
  std::optional<bool> one_process;  // See SelectionRequest; unset: any.

  // Range of the larger of one member's input and output. Both ends included.
  int64_t min_bytes = 0;
  int64_t max_bytes = std::numeric_limits<int64_t>::max();

  std::string implementation;
  std::string where;  // "rules.json:12", for messages; may be empty.
};

// Settings of a machine.
struct SelectionRules {
  // Rules in order. The first that matches, and whose implementation can serve,
  // decides.
  std::vector<SelectionRule> rules;

  // See CollectiveExecutorMgr::Options.
  std::optional<int64_t> past_caches_from_bytes;
};

// Returns the value of `rules`, which may be null.
inline std::optional<int64_t> PastCachesFromBytes(const SelectionRules* rules) {
  return rules == nullptr ? std::nullopt : rules->past_caches_from_bytes;
}

// Checks rules. Errors: INVALID_ARGUMENT naming the rule, and the other rule
// where there are two, for
//  - an implementation that is not registered, lacks parts, or does not serve
//    this collective or these processes;
//  - a layout of one task, which is one process, with several processes;
//  - a range that contains no size, or for a barrier no 0;
//  - ranges of the same collective, layout and processes that overlap;
//  - a rule that is never reached, because earlier rules match all its cases.
// The last two are allowed if the earlier rule cannot serve all these cases:
// for some groups' devices and processes, or for requests that only the later
// implementation serves.
absl::Status CheckRules(const CollectiveRegistry& registry,
                        const SelectionRules& rules);

// Registry, rules and cost model of a choice, for calls that name no
// implementation. Pointers outlive this.
struct SelectionPolicy {
  const CollectiveRegistry* registry = &CollectiveRegistry::Global();

  // Rules for collectives whose members name no implementation; null: none.
  std::shared_ptr<const SelectionRules> rules;

  // See SelectionRequest; for the requests of a resolver.
  std::string delegate;
  CostModel model;
};

// Purpose of an implementation.
struct SelectionRequest {
  CollectiveType type = CollectiveType::kAllReduce;
  const GroupLayout& layout;

  // Group with this layout, as its leader knows it. Null: only the device type
  // is known, so nothing is ruled out for missing needs.
  const CollGroupParams* group = nullptr;
  std::string device_type;
  int64_t bytes = 0;  // Larger of one member's input and output.

  bool one_process = false;    // All members are in this process; else
                               // every task is a process.
  std::string delegate;        // Connects processes and runs collectives
                               // (CollectiveDelegate::name()), or empty.
  std::string implementation;  // A name, or empty for any.

  // Elements and ops, if Reduces(type).
  DType dtype = DType::kFloat32;
  MergeOp merge_op;
  FinalOp final_op;

  bool uneven = false;              // Blocks differ in size.
  bool recv_rows = false;           // AllToAll::recv_rows is given.
  bool wants_subdivisions = false;  // Subdivision offsets were given.
  bool wants_steps = false;     // See ImplementationTraits::is_made_of_steps.
  size_t num_listed_ranks = 0;  // Size of CollImplDetails::rank_list.
  Determinism determinism = Determinism::kNotGuaranteed;  // Weakest allowed.
  CostModel model;
};

// A registered implementation as part of a choice.
struct Candidate {
  std::string name;
  Determinism determinism = Determinism::kFixedLayout;
  std::optional<double> cost_seconds;  // Unset if ruled out or not predicted.
  std::string ruled_out;               // Reason; empty if not ruled out.
};

struct Selection {
  std::string name;
  std::shared_ptr<const CollectiveFactory> factory;
  std::vector<Candidate> candidates;  // See JudgeImplementations().

  // Matching rules in file order, up to the deciding rule. All rules but the
  // last name an implementation that cannot serve; `why_not` has the reason.
  struct MatchingRule {
    SelectionRule rule;
    std::string why_not;  // Empty: this rule decided.
  };
  std::vector<MatchingRule> matching_rules;
};

// Returns the reason why the implementation cannot serve the request, as words
// that follow its name. Empty if it can. Pure.
std::string WhyNot(const ImplementationTraits& traits,
                   const SelectionRequest& request);

// Returns the candidates of SelectImplementation(): all registered
// implementations, by name. Pure.
std::vector<Candidate> JudgeImplementations(const CollectiveRegistry& registry,
                                            const SelectionRequest& request);

// Chooses an implementation:
//  1. the one named in the request;
//  2. else that of the first matching rule whose implementation can serve;
//  3. else the cheapest by its own prediction. Ties go to the stronger
//     determinism, then to the first name.
// Pure: equal requests get equal choices. Errors: NOT_FOUND for an unknown
// name; errors of `check_parts` of the named implementation; INVALID_ARGUMENT,
// with reasons and the implementations that can serve, if the named one, or
// every one, cannot. Weaker determinism than wanted is such a reason.
absl::StatusOr<Selection> SelectImplementation(const SelectionPolicy& policy,
                                               const SelectionRequest& request);
absl::StatusOr<Selection> SelectImplementation(
    const CollectiveRegistry& registry, const SelectionRequest& request);

// Rules for the choice of implementations, from a JSON file such as
//   {"version": 1,
//    "rules": [{"collective": "all_reduce", "layout": "1x8",
//               "one_process": true, "max_bytes": 65536,
//               "algorithm": "LocalReduce"}],
//    "past_caches_from_bytes": 16777216}
// docs/rules.md explains the keys. Pure except for reading the file.

// Parses `text`, the content of the file at `path`; errors and rules show
// `path`. Errors: INVALID_ARGUMENT with path, line and reason for invalid JSON
// and for unknown keys and values; errors of CheckRules().
absl::StatusOr<std::shared_ptr<const SelectionRules>> ParseRulesFile(
    const std::string& text, const std::string& path,
    const CollectiveRegistry& registry);

// Errors: as ParseRulesFile(); also for a file that cannot be read, or has more
// than 16 MiB.
absl::StatusOr<std::shared_ptr<const SelectionRules>> ReadRulesFile(
    const std::string& path, const CollectiveRegistry& registry);

// Returns the text of such a file, with one rule per line; omits `where`.
std::string RulesFileText(const SelectionRules& rules);

}  // namespace tutti

#endif  // TUTTI_SELECTION_H_
