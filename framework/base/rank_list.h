#ifndef TUTTI_FRAMEWORK_BASE_RANK_LIST_H_
#define TUTTI_FRAMEWORK_BASE_RANK_LIST_H_

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace tutti {

// Lists in error messages, which stay short however large the group is.

// Returns "a, b, c": the first eight of `count` items; then "and N more".
std::string ShortList(size_t count,
                      absl::FunctionRef<std::string(size_t index)> item);

// Returns ranks likewise, with the word: "rank 3", "ranks 0, 2, 5".
std::string RankList(absl::Span<const int> ranks);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_RANK_LIST_H_
