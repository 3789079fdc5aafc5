#ifndef TUTTI_FRAMEWORK_BASE_NAMES_H_
#define TUTTI_FRAMEWORK_BASE_NAMES_H_

#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

// Returns " (did you mean NAME?)" for the one of `known` that is nearest to
// `wanted`, by insertions, deletions and replacements of letters, without
// regard to case; empty if more than a third of the letters differ.
std::string DidYouMean(absl::string_view wanted,
                       absl::Span<const std::string> known);

// Returns the same; "; known: A, B, C" if none is near. For long lists.
std::string DidYouMeanOrKnown(absl::string_view wanted,
                              absl::Span<const std::string> known);

// INVALID_ARGUMENT: no `what` has the name. Names the nearest, and all known.
absl::Status UnknownNameError(absl::string_view what, absl::string_view name,
                              absl::Span<const std::string> known);

// Returns the one of `values` whose Name() is `name`, or UnknownNameError().
template <typename Values>
auto ParseName(absl::string_view what, absl::string_view name,
               const Values& values)
    -> absl::StatusOr<std::decay_t<decltype(*std::begin(values))>> {
  std::vector<std::string> known;
  for (const auto value : values) {
    if (Name(value) == name) return value;
    known.emplace_back(Name(value));
  }
  return UnknownNameError(what, name, known);
}

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_NAMES_H_
