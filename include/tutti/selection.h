#ifndef TUTTI_SELECTION_H_
#define TUTTI_SELECTION_H_

// Selection of implementations: the rules of a machine, from a file or from
// code, and the choice by name, rule and predicted cost, with the reasons.
// Pure but for reading the file, and the same for all that ask the same.

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

// Who decides, but for the caller, and by what. What is pointed at outlives
// this.
struct SelectionPolicy {
  const CollectiveRegistry* registry = &CollectiveRegistry::Global();

  // For what no member names an implementation for; null: none.
  std::shared_ptr<const SelectionRules> rules;

  // As in SelectionRequest, of a resolver's requests.
  std::string delegate;
  CostModel model;
};

// What an implementation is wanted for.
struct SelectionRequest {
  CollectiveType type = CollectiveType::kAllReduce;
  const GroupLayout& layout;

  // With the devices that have this layout, as their leader knows them. Null:
  // only their type is known, and nothing is ruled out for what they lack.
  const CollGroupParams* group = nullptr;
  std::string device_type;
  int64_t bytes = 0;  // Of the larger of one member's input and output.

  bool one_process = false;    // All members are in this process, else
                               // every task is a process.
  std::string delegate;        // What connects these and runs collectives
                               // (CollectiveDelegate::name()), or empty.
  std::string implementation;  // A name, or empty for any.
  MergeOp merge_op;            // Where Reduces(type), and the final op.
  FinalOp final_op;
  bool uneven = false;              // Members' contributions differ in size.
  bool wants_subdivisions = false;  // Explicit subdivision offsets were given.
  bool wants_steps = false;         // ImplementationTraits::is_made_of_steps.
  size_t num_listed_ranks = 0;      // In CollImplDetails::rank_list.
  Determinism determinism = Determinism::kNotGuaranteed;  // Wanted at least.
  CostModel model;
};

// One registered implementation's part in a choice.
struct Candidate {
  std::string name;
  Determinism determinism = Determinism::kFixedLayout;
  std::optional<double> cost_seconds;  // None if ruled out or not predicted.
  std::string ruled_out;               // Why; empty if it was not.
};

struct Selection {
  std::string name;
  std::shared_ptr<const CollectiveFactory> factory;
  std::vector<Candidate> candidates;  // As JudgeImplementations().

  // In the order of the file, of those that match and come first: all but the
  // last name what cannot serve, and `why_not` says why.
  struct MatchingRule {
    SelectionRule rule;
    std::string why_not;  // Empty: it decided.
  };
  std::vector<MatchingRule> matching_rules;
};

// Why the implementation cannot do what is asked, in words that follow its
// name; empty if it can. Pure.
std::string WhyNot(const ImplementationTraits& traits,
                   const SelectionRequest& request);

// What SelectImplementation() chooses from: all that are registered, by name.
// Pure.
std::vector<Candidate> JudgeImplementations(const CollectiveRegistry& registry,
                                            const SelectionRequest& request);

// Chooses: the implementation that is asked for by name; else that of the first
// rule that matches and whose implementation can serve; else the cheapest by
// its own prediction; among equals that whose results depend on least, then the
// first by name. Pure, so that all who ask the same get the same. Errors:
// NOT_FOUND for an unknown name; those of the named one's `check_parts`;
// INVALID_ARGUMENT if the named one, or any, cannot serve, saying why and which
// can. A demand for determinism that is not met is such a reason.
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

#endif  // TUTTI_SELECTION_H_
