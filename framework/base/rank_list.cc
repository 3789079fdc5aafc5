#include "framework/base/rank_list.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace tutti {

std::string ShortList(size_t count,
                      absl::FunctionRef<std::string(size_t index)> item) {
  constexpr size_t kMostToList = 8;
  const size_t num_listed = std::min(count, kMostToList);
  std::string list;
  for (size_t i = 0; i < num_listed; ++i) {
    absl::StrAppend(&list, i == 0 ? "" : ", ", item(i));
  }
  if (count > num_listed) {
    absl::StrAppend(&list, " and ", count - num_listed, " more");
  }
  return list;
}

std::string RankList(absl::Span<const int> ranks) {
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ",
                      ShortList(ranks.size(), [&](size_t i) {
                        return absl::StrCat(ranks[i]);
                      }));
}

}  // namespace tutti
