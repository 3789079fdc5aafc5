#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/digest.h"
#include "tutti/params.h"

namespace tutti {

absl::StatusOr<std::vector<CollectiveRequest>> SubgroupsByEnumeration(
    const CollGroupParams& base,
    absl::Span<const std::vector<int>> ranks_per_subgroup) {
  const auto invalid = [&base](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("sub-groups of group ", base.key, ": ", what...));
  };
  std::vector<CollectiveRequest> requests(base.members.size());
  for (size_t row = 0; row < ranks_per_subgroup.size(); ++row) {
    const std::vector<int>& ranks = ranks_per_subgroup[row];
    if (ranks.empty()) return invalid("row ", row, " is empty");
    std::vector<int64_t> name = {base.key,
                                 static_cast<int64_t>(base.generation)};
    name.insert(name.end(), ranks.begin(), ranks.end());
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (ranks[i] < 0 || ranks[i] >= base.size()) {
        return invalid("row ", row, " has rank ", ranks[i],
                       ", but the group has ", base.size(), " members");
      }
      CollectiveRequest& request = requests[static_cast<size_t>(ranks[i])];
      if (request.group_size != 0) {
        return invalid("rank ", ranks[i], " occurs twice, the second time in ",
                       "row ", row);
      }
      request.group_key = static_cast<GroupKey>(DigestOf(name));
      request.group_size = static_cast<int>(ranks.size());
      request.device_type = base.device_type;
      request.rank = static_cast<int>(i);
    }
  }
  return requests;
}

}  // namespace tutti
