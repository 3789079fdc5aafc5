#include "framework/collective/layout_text.h"

#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace tutti {
namespace {

// Longest text that an error quotes.
constexpr size_t kMaxShownBytes = 100;

// Returns the numbers between separators; empty if the text has anything else.
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

absl::Status Refused(absl::string_view text, absl::string_view why) {
  const bool is_long = text.size() > kMaxShownBytes;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text.substr(0, kMaxShownBytes), is_long ? "..." : "", "\" ", why));
}

absl::Status TooMany(absl::string_view text, int max_ranks) {
  return Refused(text, absl::StrCat("has too many ranks; wanted at most ",
                                    max_ranks, " ranks"));
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseLayoutText(absl::string_view text,
                                                 int max_ranks) {
  const std::vector<int64_t> product = NumbersIn(text, 'x');
  if (product.size() == 2) {
    if (product[0] > max_ranks || product[1] > max_ranks / product[0]) {
      return TooMany(text, max_ranks);
    }
    return std::vector<int>(product[0], static_cast<int>(product[1]));
  }
  const std::vector<int64_t> sum = NumbersIn(text, '+');
  if (sum.size() < 2) {
    return Refused(text,
                   "is no layout; wanted tasks x devices, such as 4x2, or the "
                   "devices of each task, such as 3+1+2");
  }
  std::vector<int> devices;
  int64_t left = max_ranks;
  for (const int64_t number : sum) {
    if (number > left) return TooMany(text, max_ranks);
    left -= number;
    devices.push_back(static_cast<int>(number));
  }
  return devices;
}

std::string LayoutText(absl::Span<const int> devices_of_tasks) {
  const bool uniform = absl::c_all_of(
      devices_of_tasks, [&](int one) { return one == devices_of_tasks[0]; });
  if (uniform && !devices_of_tasks.empty()) {
    return absl::StrCat(devices_of_tasks.size(), "x", devices_of_tasks[0]);
  }
  return absl::StrJoin(devices_of_tasks, "+");
}

}  // namespace tutti
