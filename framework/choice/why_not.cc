#include "framework/choice/why_not.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tutti/params.h"

namespace tutti {
namespace {

const DeviceAttributes& DeviceOf(const CollGroupParams& group, int rank) {
  return group.members[rank].device;
}

bool Has(const DeviceAttributes& device, absl::string_view library) {
  const auto& libraries = device.libraries;
  return std::find(libraries.begin(), libraries.end(), library) !=
         libraries.end();
}

// True if the needs apply to this member.
bool Concerns(const DeviceNeeds& needs, const GroupLayout& layout, int rank) {
  return !needs.within_tasks || layout.tasks()[layout.task_of(rank)].size() > 1;
}

std::string WhyNoLibrary(const CollGroupParams& group,
                         const DeviceNeeds& needs) {
  if (needs.library.empty()) return "";
  int first = -1, num_others = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!Concerns(needs, *group.layout, rank)) continue;
    if (Has(DeviceOf(group, rank), needs.library)) continue;
    if (first < 0) {
      first = rank;
    } else {
      ++num_others;
    }
  }
  if (first < 0) return "";
  return absl::StrCat(
      "needs ", needs.library, ", which rank ", first, " (",
      DeviceOf(group, first).name.ToString(), ") ",
      num_others == 0 ? "does not have"
                      : absl::StrCat("and ", num_others, " more do not have"));
}

std::string WhyUnitsAreShared(const CollGroupParams& group,
                              const DeviceNeeds& needs) {
  if (!needs.own_units) return "";
  absl::flat_hash_map<std::pair<int, absl::string_view>, int> rank_on;
  for (int rank = 0; rank < group.size(); ++rank) {
    const DeviceAttributes& device = DeviceOf(group, rank);
    if (device.unit.empty()) continue;
    const int task = needs.within_tasks ? group.layout->task_of(rank) : 0;
    const auto [other, is_new] = rank_on.try_emplace({task, device.unit}, rank);
    if (is_new) continue;
    return absl::StrCat(
        "needs each member ", needs.within_tasks ? "of a task " : "", "on a ",
        group.device_type, " of its own, but ranks ", other->second, " and ",
        rank, " (", DeviceOf(group, other->second).name.ToString(), " and ",
        device.name.ToString(), ") are on one");
  }
  return "";
}

std::string WhyOutOfReach(const CollGroupParams& group,
                          const DeviceNeeds& needs) {
  if (!needs.first_reaches_all) return "";
  const DeviceAttributes& first = DeviceOf(group, 0);
  for (int rank = 1; rank < group.size(); ++rank) {
    const DeviceAttributes& other = DeviceOf(group, rank);
    if (Reaches(first, other)) continue;
    return absl::StrCat("needs links from rank 0 (", first.name.ToString(),
                        ") to all, but none leads to rank ", rank, " (",
                        other.name.ToString(), ")");
  }
  return "";
}

}  // namespace

bool Reaches(const DeviceAttributes& from, const DeviceAttributes& to) {
  if (!from.unit.empty() && from.unit == to.unit) return true;
  if (from.name.TaskName() != to.name.TaskName()) return false;
  const auto& links = from.locality.links;
  return std::any_of(links.begin(), links.end(), [&to](const DeviceLink& link) {
    return link.device_index == to.name.index;
  });
}

std::string WhyNotOn(const CollGroupParams& group, const DeviceNeeds& needs) {
  std::string why_not = WhyNoLibrary(group, needs);
  if (why_not.empty()) why_not = WhyUnitsAreShared(group, needs);
  if (why_not.empty()) why_not = WhyOutOfReach(group, needs);
  return why_not;
}

std::string WhyNotOfParts(const ImplementationTraits& traits) {
  const absl::Status status = CheckParts(traits);
  if (status.ok()) return "";
  return absl::StrCat("cannot be made of its parts: ", status.message());
}

}  // namespace tutti
