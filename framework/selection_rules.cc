#include "framework/selection_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace tutti {
namespace {

template <typename... Args>
absl::Status Blame(const SelectionRule& rule, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(rule.where, ": ", args...));
}

// "4 bytes", "4 to 64 bytes", "4 bytes and more".
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
  if (traits.needs_one_process && rule.one_process == false) {
    return Blame(rule, rule.implementation,
                 " needs all members in one process, but the rule is for "
                 "several");
  }
  return absl::OkStatus();
}

absl::Status CheckRange(const SelectionRule& rule) {
  if (rule.min_bytes < 0) {
    return Blame(rule, "sizes begin at ", rule.min_bytes, "; wanted 0 or more");
  }
  if (rule.min_bytes <= rule.max_bytes) return absl::OkStatus();
  return Blame(rule, "no size is from ", rule.min_bytes, " to ", rule.max_bytes,
               " bytes");
}

bool HasSameScope(const SelectionRule& a, const SelectionRule& b) {
  return a.type == b.type && a.layout == b.layout &&
         a.one_process == b.one_process;
}

// Whether all that b is about, but for sizes, a is about too.
bool CoversScope(const SelectionRule& a, const SelectionRule& b) {
  return a.type == b.type && (a.layout.empty() || a.layout == b.layout) &&
         (!a.one_process.has_value() || a.one_process == b.one_process);
}

absl::Status CheckOverlap(absl::Span<const SelectionRule> before,
                          const SelectionRule& rule) {
  for (const SelectionRule& other : before) {
    if (!HasSameScope(other, rule) || other.max_bytes < rule.min_bytes ||
        rule.max_bytes < other.min_bytes) {
      continue;
    }
    return Blame(rule, "sizes of ", RangeText(rule), " overlap with the ",
                 RangeText(other), " of ", other.where,
                 ", which is for the same ", Name(rule.type));
  }
  return absl::OkStatus();
}

// Goes from size to size that rules before leave, and ends where there is none.
absl::Status CheckReached(absl::Span<const SelectionRule> before,
                          const SelectionRule& rule) {
  int64_t first_left = rule.min_bytes;
  const SelectionRule* last = nullptr;
  const auto takes_it = [&](const SelectionRule& other) {
    return CoversScope(other, rule) && other.min_bytes <= first_left &&
           first_left <= other.max_bytes;
  };
  for (;;) {
    const auto* const other =
        std::find_if(before.begin(), before.end(), takes_it);
    if (other == before.end()) return absl::OkStatus();
    last = other;
    if (other->max_bytes >= rule.max_bytes) break;
    first_left = other->max_bytes + 1;
  }
  return Blame(rule, "is never reached: ", last->where,
               " and what is before it take all ", Name(rule.type), " of ",
               RangeText(rule));
}

}  // namespace

absl::Status CheckRules(const CollectiveRegistry& registry,
                        const SelectionRules& rules) {
  for (size_t i = 0; i < rules.size(); ++i) {
    const auto before = absl::MakeConstSpan(rules).first(i);
    absl::Status status = CheckImplementation(registry, rules[i]);
    if (status.ok()) status = CheckRange(rules[i]);
    if (status.ok()) status = CheckOverlap(before, rules[i]);
    if (status.ok()) status = CheckReached(before, rules[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tutti
