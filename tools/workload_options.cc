#include "tools/workload_options.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/exit_status.h"
#include "tools/sizes.h"

namespace tutti {
namespace {

// Of one rank: 1 PiB.
constexpr int64_t kMaxBytes = int64_t{1} << 50;

// The numbers between separators; empty if there is anything else.
std::vector<int64_t> NumbersIn(absl::string_view text, char separator) {
  std::vector<int64_t> numbers;
  for (absl::string_view word : absl::StrSplit(text, separator)) {
    int64_t number = 0;
    if (!absl::c_all_of(word, absl::ascii_isdigit) ||
        !absl::SimpleAtoi(word, &number) || number < 1) {
      return {};
    }
    numbers.push_back(number);
  }
  return numbers;
}

// How many devices each task has; empty if the text is no layout. Tasks that
// are too many for any group are left out.
std::vector<int64_t> DevicesOfTasks(const std::string& text, int max_ranks) {
  const std::vector<int64_t> product = NumbersIn(text, 'x');
  if (product.size() == 2) {
    const int64_t num_tasks = std::min(product[0], int64_t{max_ranks} + 1);
    return std::vector<int64_t>(num_tasks, product[1]);
  }
  const std::vector<int64_t> sum = NumbersIn(text, '+');
  return sum.size() > 1 ? sum : std::vector<int64_t>();
}

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
  const std::vector<int64_t> tasks = DevicesOfTasks(text, max_ranks);
  if (tasks.empty()) {
    return UsageError(absl::StrCat(
        "--layout: \"", text,
        "\" is no layout; wanted tasks x devices, such as 4x2, or the devices "
        "of each task, such as 3+1+2"));
  }
  std::vector<int> task_of_rank;
  for (size_t task = 0; task < tasks.size(); ++task) {
    if (tasks[task] > max_ranks - static_cast<int64_t>(task_of_rank.size())) {
      return UsageError(absl::StrCat("--layout ", text, ": wanted at most ",
                                     max_ranks, " ranks"));
    }
    task_of_rank.insert(task_of_rank.end(), tasks[task],
                        static_cast<int>(task));
  }
  return GroupLayout::Create(task_of_rank);
}

absl::StatusOr<Workload> ParseWorkload(const CollectiveWords& words,
                                       const std::string& dtype,
                                       int group_size) {
  auto spec = ParseCollectiveSpec(words);
  if (!spec.ok()) return spec.status();
  const auto parsed_dtype = ParseDType(dtype);
  if (!parsed_dtype.ok()) return UsageError(parsed_dtype.status().message());
  if (spec->type == CollectiveType::kPermute && spec->permutation.empty()) {
    PermuteToTheNextRank(&*spec, group_size);
  }
  const absl::Status fits = CheckGroupSize(*spec, group_size);
  if (!fits.ok()) return fits;
  if (Reduces(spec->type)) {
    const absl::Status supported = spec->merge_op.CheckSupports(*parsed_dtype);
    if (!supported.ok()) return UsageError(supported.message());
  }
  return Workload{.spec = *std::move(spec),
                  .dtype = *parsed_dtype,
                  .group_size = group_size};
}

}  // namespace tutti
