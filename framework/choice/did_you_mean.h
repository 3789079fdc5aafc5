#ifndef TUTTI_FRAMEWORK_CHOICE_DID_YOU_MEAN_H_
#define TUTTI_FRAMEWORK_CHOICE_DID_YOU_MEAN_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

// Returns " (did you mean NAME?)" for the one of `known` that is nearest to
// `wanted`, by insertions, deletions and replacements of letters, without
// regard to case; empty if more than a third of the letters differ.
std::string DidYouMean(absl::string_view wanted,
                       absl::Span<const std::string> known);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CHOICE_DID_YOU_MEAN_H_
