#include "tutti/selection.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/names.h"
#include "framework/base/status_macros.h"
#include "framework/choice/why_not.h"

namespace tutti {
namespace {

// Returns the reason why it cannot take the list of ranks; empty if it can.
std::string WhyNotListed(const ImplementationTraits& traits,
                         const SelectionRequest& request) {
  const size_t num_listed = request.num_listed_ranks;
  const auto size = static_cast<size_t>(request.layout.size());
  if (num_listed == 0 || traits.rank_list == RankListUse::kOwners) return "";
  if (traits.rank_list == RankListUse::kNone) return "takes no list of ranks";
  if (num_listed == size) return "";
  return absl::StrCat("takes a list of all ", size, " ranks, not of ",
                      num_listed);
}

// Returns the reason why it cannot run on the group's devices; empty if it can.
std::string WhyNotInGroup(const ImplementationTraits& traits,
                          const CollGroupParams& group) {
  std::string why_not = WhyNotOn(group, traits.device_needs);
  if (!why_not.empty() || !traits.needs_communicator_key) return why_not;
  const auto& details = group.runtime_details;
  if (!details.communicator_key.empty()) return "";
  return absl::StrCat("needs a key that the group's leader has not made",
                      details.key_status.ok() ? "" : ": ",
                      details.key_status.message());
}

// Returns the reason why its delegate cannot run it; empty if it can.
std::string WhyNotDelegated(const ImplementationTraits& traits,
                            const SelectionRequest& request) {
  if (traits.delegate.empty()) return "";
  if (traits.delegate != request.delegate) {
    return absl::StrCat("needs processes that ", traits.delegate, " connects");
  }
  if (traits.delegates_between_processes ||
      request.layout.num_tasks() == request.layout.size()) {
    return "";
  }
  return "needs each member in a process of its own";
}

// Returns the reason why it cannot reduce what the request asks; empty if it
// can.
std::string WhyNotReduced(const ImplementationTraits& traits,
                          const SelectionRequest& request) {
  if (!Reduces(request.type)) return "";
  if (!request.merge_op.commutative() && !traits.preserves_rank_order) {
    return "does not keep the rank order, which a merge op that does not "
           "commute needs";
  }
  if (IsMeanOfIntegers(request.dtype, request.merge_op, request.final_op) &&
      !traits.reduces_at_once) {
    return "reduces in several steps, where the sum of an average of integers "
           "may wrap around";
  }
  if (traits.why_not_ops == nullptr) return "";
  return traits.why_not_ops(request.dtype, request.merge_op, request.final_op);
}

Candidate Judge(const CollectiveRegistry::Entry& entry,
                const SelectionRequest& request) {
  const ImplementationTraits& traits = entry.factory->traits();
  Candidate candidate{.name = entry.name,
                      .determinism = traits.determinism,
                      .ruled_out = WhyNot(traits, request)};
  if (!candidate.ruled_out.empty()) return candidate;
  if (traits.cost_seconds != nullptr) {
    const double seconds =
        traits.cost_seconds({.type = request.type,
                             .layout = request.layout,
                             .bytes = request.bytes,
                             .model = request.model,
                             .one_process = request.one_process});
    // Ignores values that cannot be a time.
    if (std::isfinite(seconds) && seconds >= 0) {
      candidate.cost_seconds = seconds;
    }
  }
  if (!candidate.cost_seconds.has_value() && request.implementation.empty()) {
    candidate.ruled_out = "runs only when named";
  }
  return candidate;
}

std::string ListOf(const std::vector<Candidate>& candidates) {
  std::vector<absl::string_view> names;
  for (const Candidate& candidate : candidates) {
    if (candidate.ruled_out.empty()) names.push_back(candidate.name);
  }
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

absl::Status UnknownNameError(const CollectiveRegistry& registry,
                              const std::string& name,
                              const std::vector<Candidate>& candidates) {
  std::vector<std::string> known;
  for (const auto& entry : registry.List()) known.push_back(entry.name);
  return absl::NotFoundError(absl::StrCat(
      "no implementation is named \"", name, "\"", DidYouMean(name, known),
      "; these can serve: ", ListOf(candidates)));
}

absl::StatusOr<Selection> SelectByName(const CollectiveRegistry& registry,
                                       const std::string& name_or_alias,
                                       Selection selection) {
  const std::string name = registry.Resolve(name_or_alias);
  auto factory = registry.Find(name);
  if (!factory.ok()) {
    return UnknownNameError(registry, name, selection.candidates);
  }
  const absl::Status parts = CheckParts((*factory)->traits());
  if (!parts.ok()) {
    return absl::Status(
        parts.code(),
        absl::StrCat(name, " ", WhyNotOfParts((*factory)->traits()),
                     "; these can serve: ", ListOf(selection.candidates)));
  }
  const auto chosen = std::find_if(
      selection.candidates.begin(), selection.candidates.end(),
      [&](const Candidate& candidate) { return candidate.name == name; });
  if (chosen != selection.candidates.end() && !chosen->ruled_out.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " ", chosen->ruled_out,
                     "; these can serve: ", ListOf(selection.candidates)));
  }
  selection.name = name;
  selection.factory = *std::move(factory);
  return selection;
}

bool Matches(const SelectionRule& rule, const SelectionRequest& request) {
  return rule.type == request.type && rule.min_bytes <= request.bytes &&
         request.bytes <= rule.max_bytes &&
         (!rule.one_process.has_value() ||
          rule.one_process == request.one_process) &&
         (rule.layout.empty() || rule.layout == request.layout.ToString());
}

// Sets name and factory if a rule decides.
void ApplyRules(const CollectiveRegistry& registry, const SelectionRules& rules,
                const SelectionRequest& request, Selection* selection) {
  for (const SelectionRule& rule : rules.rules) {
    if (!Matches(rule, request)) continue;
    auto factory = registry.Find(rule.implementation);
    const std::string why_not = factory.ok()
                                    ? WhyNot((*factory)->traits(), request)
                                    : std::string("is not registered");
    selection->matching_rules.push_back({rule, why_not});
    if (!why_not.empty()) continue;
    selection->name = registry.Resolve(rule.implementation);
    selection->factory = *std::move(factory);
    return;
  }
}

// True if `a` is preferred to `b`.
bool IsBetter(const Candidate& a, const Candidate& b) {
  return a.cost_seconds != b.cost_seconds ? a.cost_seconds < b.cost_seconds
                                          : a.determinism < b.determinism;
}

// Returns the first of the best candidates; null if all are ruled out.
const Candidate* Best(const std::vector<Candidate>& candidates) {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    if (!candidate.ruled_out.empty()) continue;
    if (best == nullptr || IsBetter(candidate, *best)) best = &candidate;
  }
  return best;
}

std::string DoesNotDo(CollectiveType type) {
  return absl::StrCat("does not do ", Name(type));
}

// Omits implementations of other collectives, which are the majority.
absl::Status NobodyError(const SelectionRequest& request,
                         const std::vector<Candidate>& candidates) {
  const std::string does_not = DoesNotDo(request.type);
  std::vector<std::string> reasons;
  for (const Candidate& candidate : candidates) {
    if (candidate.ruled_out == does_not) continue;
    reasons.push_back(absl::StrCat(candidate.name, " ", candidate.ruled_out));
  }
  std::string demand;
  if (request.determinism != Determinism::kNotGuaranteed) {
    demand =
        absl::StrCat(" with determinism \"", Name(request.determinism), "\"");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no registered implementation can do this ",
                   Name(request.type), demand, ": ",
                   reasons.empty() ? "none that does is linked into the program"
                                   : absl::StrJoin(reasons, "; ")));
}

}  // namespace

std::string WhyNot(const ImplementationTraits& traits,
                   const SelectionRequest& request) {
  const auto& types = traits.collectives;
  if (std::find(types.begin(), types.end(), request.type) == types.end()) {
    return DoesNotDo(request.type);
  }
  const std::string why_not_of_parts = WhyNotOfParts(traits);
  if (!why_not_of_parts.empty()) return why_not_of_parts;
  if (request.wants_steps && !traits.is_made_of_steps) {
    return "is not made of steps";
  }
  const auto& devices = traits.device_types;
  if (!devices.empty() && std::find(devices.begin(), devices.end(),
                                    request.device_type) == devices.end()) {
    return absl::StrCat("runs on ", absl::StrJoin(devices, ", "), ", not on ",
                        request.device_type);
  }
  if (request.group != nullptr) {
    std::string why_not = WhyNotInGroup(traits, *request.group);
    if (!why_not.empty()) return why_not;
  }
  if (traits.needs_one_process && !request.one_process) {
    return "needs all members in one process";
  }
  const std::string why_not_delegated = WhyNotDelegated(traits, request);
  if (!why_not_delegated.empty()) return why_not_delegated;
  const std::string why_not_reduced = WhyNotReduced(traits, request);
  if (!why_not_reduced.empty()) return why_not_reduced;
  if (request.uneven && !traits.supports_uneven) {
    return "needs contributions of equal size";
  }
  if (request.recv_rows && !traits.supports_recv_rows) {
    return "needs the rows of all pairs of members";
  }
  if (request.wants_subdivisions && !traits.supports_subdivisions) {
    return "has no subdivisions";
  }
  const std::string why_not = WhyNotListed(traits, request);
  if (!why_not.empty()) return why_not;
  if (!Satisfies(traits.determinism, request.determinism)) {
    return absl::StrCat("offers determinism \"", Name(traits.determinism),
                        "\", where \"", Name(request.determinism),
                        "\" is demanded");
  }
  return "";
}

std::vector<Candidate> JudgeImplementations(const CollectiveRegistry& registry,
                                            const SelectionRequest& request) {
  std::vector<Candidate> candidates;
  for (const auto& entry : registry.List()) {
    candidates.push_back(Judge(entry, request));
  }
  return candidates;
}

absl::StatusOr<Selection> SelectImplementation(
    const CollectiveRegistry& registry, const SelectionRequest& request) {
  return SelectImplementation(SelectionPolicy{.registry = &registry}, request);
}

absl::StatusOr<Selection> SelectImplementation(
    const SelectionPolicy& policy, const SelectionRequest& request) {
  const CollectiveRegistry& registry = *policy.registry;
  Selection selection{.candidates = JudgeImplementations(registry, request)};
  if (!request.implementation.empty()) {
    return SelectByName(registry, request.implementation, std::move(selection));
  }
  if (policy.rules != nullptr) {
    ApplyRules(registry, *policy.rules, request, &selection);
    if (selection.factory != nullptr) return selection;
  }
  const Candidate* best = Best(selection.candidates);
  if (best == nullptr) return NobodyError(request, selection.candidates);
  ASSIGN_OR_RETURN(auto factory, registry.Find(best->name));
  selection.name = best->name;
  selection.factory = std::move(factory);
  return selection;
}

}  // namespace tutti
