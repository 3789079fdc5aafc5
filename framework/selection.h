#ifndef TUTTI_FRAMEWORK_SELECTION_H_
#define TUTTI_FRAMEWORK_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/collective_type.h"
#include "framework/determinism.h"
#include "framework/group_layout.h"
#include "framework/implementation_traits.h"
#include "framework/merge_op.h"
#include "framework/params.h"
#include "framework/registry.h"
#include "framework/selection_rules.h"

namespace tutti {

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

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_SELECTION_H_
