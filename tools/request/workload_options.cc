#include "tools/request/workload_options.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "framework/collective/layout_text.h"
#include "tools/base/exit_status.h"
#include "tools/base/sizes.h"

namespace tutti {
namespace {

// Limit per rank: 1 PiB.
constexpr int64_t kMaxBytes = int64_t{1} << 50;

void PermuteToTheNextRank(CollectiveSpec* spec, int group_size) {
  for (int rank = 0; rank < group_size; ++rank) {
    spec->permutation.push_back((rank + 1) % group_size);
  }
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(absl::string_view option,
                                  const std::string& text) {
  const absl::StatusOr<int64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    return UsageError(absl::StrCat(option, ": ", bytes.status().message()));
  }
  if (*bytes < 1) {
    return UsageError(
        absl::StrCat(option, " ", text, ": wanted at least 1 byte"));
  }
  if (*bytes > kMaxBytes) {
    return UsageError(absl::StrCat(option, " ", text, ": wanted at most ",
                                   FormatBytes(kMaxBytes)));
  }
  return bytes;
}

absl::StatusOr<GroupLayout> ParseLayout(const std::string& text,
                                        int max_ranks) {
  const auto devices = ParseLayoutText(text, max_ranks);
  if (!devices.ok()) {
    return UsageError(absl::StrCat("--layout: ", devices.status().message()));
  }
  std::vector<int> task_of_rank;
  for (size_t task = 0; task < devices->size(); ++task) {
    task_of_rank.insert(task_of_rank.end(), (*devices)[task],
                        static_cast<int>(task));
  }
  return GroupLayout::Create(task_of_rank);
}

std::string DTypeNames(size_t columns) {
  std::string text;
  size_t line_begin = 0;
  for (const DType dtype : kAllDTypes) {
    const std::string word = absl::StrCat(Name(dtype), ",");
    if (!text.empty()) {
      const bool fits = text.size() - line_begin + 1 + word.size() <= columns;
      text += fits ? ' ' : '\n';
      if (!fits) line_begin = text.size();
    }
    text += word;
  }
  text.pop_back();  // The last comma.
  return text;
}

absl::StatusOr<Workload> ParseWorkload(const CollectiveWords& words,
                                       const std::string& dtype,
                                       int group_size) {
  ASSIGN_OR_RETURN(auto spec, ParseCollectiveSpec(words));
  const auto parsed_dtype = ParseDType(dtype);
  if (!parsed_dtype.ok()) return UsageError(parsed_dtype.status().message());
  if (spec.type == CollectiveType::kPermute && spec.permutation.empty()) {
    PermuteToTheNextRank(&spec, group_size);
  }
  RETURN_IF_ERROR(CheckGroupSize(spec, group_size));
  if (Reduces(spec.type)) {
    const absl::Status supported = spec.merge_op.CheckSupports(*parsed_dtype);
    if (!supported.ok()) return UsageError(supported.message());
  }
  return Workload{.spec = std::move(spec),
                  .dtype = *parsed_dtype,
                  .group_size = group_size};
}

}  // namespace tutti
