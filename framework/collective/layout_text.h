#ifndef TUTTI_FRAMEWORK_COLLECTIVE_LAYOUT_TEXT_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_LAYOUT_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

// Text form of layouts. Pure.

// Parses the number of devices of each task: "4x2" (tasks x devices) is four
// times 2, and "3+1+2" is 3, 1, 2. Errors: INVALID_ARGUMENT, with the text, if
// it is not a layout or has more than `max_ranks` devices in all.
absl::StatusOr<std::vector<int>> ParseLayoutText(absl::string_view text,
                                                 int max_ranks);

// Returns the same text as GroupLayout::ToString(): "2x2" for 2, 2.
std::string LayoutText(absl::Span<const int> devices_of_tasks);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_LAYOUT_TEXT_H_
