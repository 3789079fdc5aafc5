#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/rank_list.h"
#include "named_tensors/tensor_request.h"
#include "tutti/named_tensors.h"

namespace tutti {
namespace {

// Text for tensors that miss the same ranks. `tensors` starts with the oldest.
std::string LineOf(absl::Span<const StalledTensor* const> tensors) {
  const StalledTensor& oldest = *tensors.front();
  const bool is_one = tensors.size() == 1;
  const std::string names = ShortList(
      tensors.size(), [&](size_t i) { return Quoted(tensors[i]->name); });
  return absl::StrCat(
      is_one ? "tensor " : absl::StrCat(tensors.size(), " tensors, "), names,
      is_one ? " has waited for " : ", have waited for up to ",
      absl::FormatDuration(absl::Trunc(oldest.waited, absl::Milliseconds(1))),
      ": ranks that have asked for ",
      is_one ? "it: " : "them: ", RanksText(oldest.present),
      "; ranks that have not: ", RanksText(oldest.missing));
}

}  // namespace

std::string StalledTensor::ToString() const {
  const StalledTensor* const only = this;
  return LineOf({&only, 1});
}

std::vector<std::string> LinesOf(absl::Span<const StalledTensor> tensors) {
  using Ranks = std::pair<std::vector<int>, std::vector<int>>;
  std::map<Ranks, size_t> group_of;
  std::vector<std::vector<const StalledTensor*>> groups;
  for (const StalledTensor& tensor : tensors) {
    const auto [found, is_new] = group_of.try_emplace(
        Ranks(tensor.present, tensor.missing), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(&tensor);
  }
  std::vector<std::string> lines;
  for (const auto& group : groups) lines.push_back(LineOf(group));
  return lines;
}

}  // namespace tutti
