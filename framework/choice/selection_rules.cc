#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/choice/why_not.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/selection.h"

namespace tutti {
namespace {

// Name of a rule in messages. Rules from code may have no `where`.
std::string Where(const SelectionRule& rule) {
  if (!rule.where.empty()) return rule.where;
  return absl::StrCat("a rule of ", Name(rule.type), " for ",
                      rule.implementation);
}

template <typename... Args>
absl::Status Blame(const SelectionRule& rule, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(Where(rule), ": ", args...));
}

// Returns "4 bytes", "4 to 64 bytes" or "4 bytes and more".
std::string RangeText(const SelectionRule& rule) {
  if (rule.max_bytes == std::numeric_limits<int64_t>::max()) {
    return absl::StrCat(rule.min_bytes, " bytes and more");
  }
  if (rule.min_bytes == rule.max_bytes) {
    return absl::StrCat(rule.min_bytes, " bytes");
  }
  return absl::StrCat(rule.min_bytes, " to ", rule.max_bytes, " bytes");
}

absl::Status CheckImplementation(const CollectiveRegistry& registry,
                                 const SelectionRule& rule) {
  const auto factory = registry.Find(rule.implementation);
  if (!factory.ok()) return Blame(rule, factory.status().message());
  const ImplementationTraits& traits = (*factory)->traits();
  const auto& types = traits.collectives;
  if (std::find(types.begin(), types.end(), rule.type) == types.end()) {
    return Blame(rule, rule.implementation, " does not do ", Name(rule.type));
  }
  const std::string why_not = WhyNotOfParts(traits);
  if (!why_not.empty()) return Blame(rule, rule.implementation, " ", why_not);
  if (traits.needs_one_process && rule.one_process == false) {
    return Blame(rule, rule.implementation,
                 " needs all members in one process, but the rule is for "
                 "several");
  }
  return absl::OkStatus();
}

bool IsOfOneTask(const SelectionRule& rule) {
  return absl::StartsWith(rule.layout, "1x");
}

// True if the rule is for one process, false for several; unset: for both.
std::optional<bool> OneProcess(const SelectionRule& rule) {
  return IsOfOneTask(rule) ? true : rule.one_process;
}

// Values of `one_process` that the rule matches.
std::vector<bool> ProcessesOf(const SelectionRule& rule) {
  const std::optional<bool> one_process = OneProcess(rule);
  if (one_process.has_value()) return {*one_process};
  return {true, false};
}

absl::Status CheckProcesses(const SelectionRule& rule) {
  if (rule.one_process.value_or(true) || !IsOfOneTask(rule)) {
    return absl::OkStatus();
  }
  return Blame(rule, "the layout ", rule.layout,
               " is one process, but the rule is for several");
}

absl::Status CheckRange(const SelectionRule& rule) {
  if (rule.min_bytes < 0) {
    return Blame(rule, "sizes begin at ", rule.min_bytes, "; wanted 0 or more");
  }
  if (rule.type == CollectiveType::kBarrier && rule.min_bytes > 0) {
    return Blame(rule, "sizes begin at ", rule.min_bytes,
                 ", but a barrier has 0 bytes");
  }
  if (rule.min_bytes <= rule.max_bytes) return absl::OkStatus();
  return Blame(rule, "no size is from ", rule.min_bytes, " to ", rule.max_bytes,
               " bytes");
}

// Conditions of a rule, except for sizes.
using Scope = std::tuple<CollectiveType, std::string, std::optional<bool>>;

Scope ScopeOf(const SelectionRule& rule) {
  return {rule.type, rule.layout, OneProcess(rule)};
}

// A rule and the traits of its implementation.
struct Known {
  const SelectionRule* rule;
  const ImplementationTraits* traits;
};

// Rules of one scope and implementation, by their smallest size. Their sizes do
// not overlap.
using Ranges = std::map<int64_t, Known>;

// Rules of one scope, by implementation.
using RangesByName = std::map<std::string, Ranges>;

// Rule for this size; null if none.
const Known* FindSize(const Ranges& ranges, int64_t bytes) {
  const auto next = ranges.upper_bound(bytes);
  if (next == ranges.begin()) return nullptr;
  const Known& known = std::prev(next)->second;
  return bytes <= known.rule->max_bytes ? &known : nullptr;
}

// First rule that shares a size with `rule`; null if none.
const Known* FindSizesOf(const Ranges& ranges, const SelectionRule& rule) {
  const Known* const known = FindSize(ranges, rule.min_bytes);
  if (known != nullptr) return known;
  const auto next = ranges.lower_bound(rule.min_bytes);
  return next == ranges.end() || next->first > rule.max_bytes ? nullptr
                                                              : &next->second;
}

// True if the implementation can run on all devices and processes of such
// groups.
bool ServesAll(const ImplementationTraits& traits, bool one_process) {
  const DeviceNeeds& needs = traits.device_needs;
  return (one_process || !traits.needs_one_process) &&
         traits.device_types.empty() && needs.library.empty() &&
         !needs.own_units && !needs.first_reaches_all &&
         !traits.needs_communicator_key && traits.delegate.empty();
}

// True if a reduction may have ops that `before` cannot reduce and `after` can.
bool LeavesOps(const ImplementationTraits& before,
               const ImplementationTraits& after) {
  return (after.preserves_rank_order && !before.preserves_rank_order) ||
         (after.reduces_at_once && !before.reduces_at_once) ||
         (before.why_not_ops != nullptr &&
          before.why_not_ops != after.why_not_ops);
}

// True if a request may have a demand that `before` cannot serve and `after`
// can. Covers each demand that WhyNot() checks, except devices and processes.
bool LeavesRequests(const ImplementationTraits& before,
                    const ImplementationTraits& after, CollectiveType type) {
  return !Satisfies(before.determinism, after.determinism) ||
         (Reduces(type) && LeavesOps(before, after)) ||
         (HasRankBlocks(type) && after.supports_uneven &&
          !before.supports_uneven) ||
         (ExchangesBlocks(type) && after.supports_recv_rows &&
          !before.supports_recv_rows) ||
         (after.supports_subdivisions && !before.supports_subdivisions) ||
         (after.is_made_of_steps && !before.is_made_of_steps) ||
         // A later use accepts every list that an earlier one accepts.
         before.rank_list < after.rank_list;
}

// True if `before` leaves no request to `after`, among requests that both
// match. A later rule for the same implementation can serve no more than the
// earlier one.
bool Takes(const Known& before, const Known& after, bool one_process) {
  return before.rule->implementation == after.rule->implementation ||
         (ServesAll(*before.traits, one_process) &&
          !LeavesRequests(*before.traits, *after.traits, after.rule->type));
}

// True if Takes() holds for all groups that the rules, of one scope, match.
bool TakesAlways(const Known& before, const Known& after) {
  return absl::c_all_of(ProcessesOf(*after.rule), [&](bool one_process) {
    return Takes(before, after, one_process);
  });
}

// Rules checked before, in order.
class RulesBefore {
 public:
  void Add(const Known& known) {
    const SelectionRule& rule = *known.rule;
    ranges_[ScopeOf(rule)][rule.implementation].emplace(rule.min_bytes, known);
  }

  absl::Status CheckOverlap(const Known& known) const;
  absl::Status CheckReached(const Known& known) const;

 private:
  // Earlier rules that leave no size to the rule, in groups with this
  // `one_process`, in ascending order of sizes. Empty if a size is left.
  std::vector<const SelectionRule*> FindTakers(const Known& known,
                                               bool one_process) const;

  absl::flat_hash_map<Scope, RangesByName> ranges_;
};

absl::Status RulesBefore::CheckOverlap(const Known& known) const {
  const SelectionRule& rule = *known.rule;
  const auto found = ranges_.find(ScopeOf(rule));
  if (found == ranges_.end()) return absl::OkStatus();
  for (const auto& [name, ranges] : found->second) {
    const Known* const before = FindSizesOf(ranges, rule);
    if (before == nullptr || !TakesAlways(*before, known)) continue;
    const SelectionRule& other = *before->rule;
    return Blame(rule, "sizes of ", RangeText(rule), " overlap with the ",
                 RangeText(other), " of ", Where(other),
                 ", which is for the same ", Name(rule.type));
  }
  return absl::OkStatus();
}

// Steps through the sizes that earlier rules take; stops at a size that is
// left.
std::vector<const SelectionRule*> RulesBefore::FindTakers(
    const Known& known, bool one_process) const {
  const SelectionRule& rule = *known.rule;
  // Rules whose conditions include all of the rule's groups.
  std::vector<const Ranges*> covering;
  for (const std::string& layout : std::set<std::string>{"", rule.layout}) {
    for (const std::optional<bool> processes :
         {std::optional<bool>(), std::optional<bool>(one_process)}) {
      const auto found = ranges_.find({rule.type, layout, processes});
      if (found == ranges_.end()) continue;
      for (const auto& [name, ranges] : found->second) {
        if (Takes(ranges.begin()->second, known, one_process)) {
          covering.push_back(&ranges);
        }
      }
    }
  }
  std::vector<const SelectionRule*> takers;
  int64_t first_left = rule.min_bytes;
  for (;;) {
    const SelectionRule* taker = nullptr;
    for (const Ranges* ranges : covering) {
      const Known* const other = FindSize(*ranges, first_left);
      if (other == nullptr) continue;
      if (taker == nullptr || taker->max_bytes < other->rule->max_bytes) {
        taker = other->rule;
      }
    }
    if (taker == nullptr) return {};
    takers.push_back(taker);
    if (taker->max_bytes >= rule.max_bytes) return takers;
    first_left = taker->max_bytes + 1;
  }
}

absl::Status RulesBefore::CheckReached(const Known& known) const {
  const SelectionRule& rule = *known.rule;
  std::vector<const SelectionRule*> all;
  for (const bool one_process : ProcessesOf(rule)) {
    const std::vector<const SelectionRule*> takers =
        FindTakers(known, one_process);
    if (takers.empty()) return absl::OkStatus();
    all.insert(all.end(), takers.begin(), takers.end());
  }
  const SelectionRule* const last = all.back();
  const bool is_alone = std::count(all.begin(), all.end(), last) ==
                        static_cast<std::ptrdiff_t>(all.size());
  return Blame(rule, "is never reached: ", Where(*last),
               is_alone ? ", before it, takes" : " and others before it take",
               " all ", Name(rule.type), " of ", RangeText(rule));
}

}  // namespace

absl::Status CheckRules(const CollectiveRegistry& registry,
                        const SelectionRules& rules) {
  RulesBefore before;
  for (const SelectionRule& rule : rules.rules) {
    RETURN_IF_ERROR(CheckImplementation(registry, rule));
    RETURN_IF_ERROR(CheckProcesses(rule));
    RETURN_IF_ERROR(CheckRange(rule));
    const Known known{&rule, &(*registry.Find(rule.implementation))->traits()};
    RETURN_IF_ERROR(before.CheckOverlap(known));
    RETURN_IF_ERROR(before.CheckReached(known));
    before.Add(known);
  }
  return absl::OkStatus();
}

}  // namespace tutti
