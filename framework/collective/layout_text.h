#ifndef TUTTI_FRAMEWORK_COLLECTIVE_LAYOUT_TEXT_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_LAYOUT_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tutti {

// Layouts as people write them. Pure.

// How many devices each task has: four times 2 of "4x2" (tasks x devices), and
// 3, 1, 2 of "3+1+2". Errors: INVALID_ARGUMENT that quotes the text, if it is
// no layout or has more than `max_ranks` devices in all.
absl::StatusOr<std::vector<int>> ParseLayoutText(absl::string_view text,
                                                 int max_ranks);

// The text that GroupLayout::ToString() gives such a layout: "2x2" of 2, 2.
std::string LayoutText(absl::Span<const int> devices_of_tasks);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_LAYOUT_TEXT_H_
