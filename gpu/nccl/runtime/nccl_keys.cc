#include "gpu/nccl/runtime/nccl_keys.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

bool IsOfOneTask(const CollGroupParams& group) {
  return absl::c_all_of(group.members, [&](const CollGroupMember& member) {
    return member.device.name.TaskName() ==
           group.members[0].device.name.TaskName();
  });
}

// True if the device has an NCCL that blocks. Another check of the libraries
// finds devices without NCCL.
bool Blocks(const CollGroupMember& member) {
  const auto& libraries = member.device.libraries;
  return absl::c_linear_search(libraries, kNcclLibrary) &&
         !absl::c_linear_search(libraries, kNcclAmongTasks);
}

// Reason why the group can have no communicator: it spans several tasks, and
// communicators of the leader's or a member's NCCL block. Empty: it can.
std::string WhyMayNotBlock(const CollGroupParams& group, NcclRuntime& leaders) {
  constexpr char kWhy[] = "among several tasks NCCL may not block";
  if (IsOfOneTask(group)) return "";
  if (!leaders.WhyBlocking().empty()) {
    return absl::StrCat(kWhy, ": ", leaders.WhyBlocking());
  }
  const auto found = absl::c_find_if(group.members, Blocks);
  if (found == group.members.end()) return "";
  return absl::StrCat(kWhy, ", as it does on rank ",
                      found - group.members.begin(), " (",
                      found->device.name.ToString(), ")");
}

}  // namespace

NcclKeys& NcclKeys::Global() {
  // Never destroyed: devices may live as long as the program.
  static NcclKeys* const keys = new NcclKeys();
  return *keys;
}

std::shared_ptr<void> NcclKeys::Add(uint64_t incarnation,
                                    std::shared_ptr<NcclRuntime> nccl) {
  if (nccl == nullptr) return nullptr;
  MutexLock lock(&mu_);
  const auto place = runtimes_.emplace(incarnation, std::move(nccl));
  return std::shared_ptr<void>(&place->second, [this, place](void*) {
    // Destroyed without the lock: this may be the last reference.
    std::shared_ptr<NcclRuntime> last;
    MutexLock erase_lock(&mu_);
    last = std::move(place->second);
    runtimes_.erase(place);
  });
}

std::shared_ptr<NcclRuntime> NcclKeys::Find(const CollGroupParams& group) {
  MutexLock lock(&mu_);
  for (const CollGroupMember& member : group.members) {
    const auto found = runtimes_.find(member.device.incarnation);
    if (found != runtimes_.end()) return found->second;
  }
  return runtimes_.empty() ? nullptr : runtimes_.begin()->second;
}

absl::StatusOr<std::string> NcclKeys::NewKey(const CollGroupParams& group) {
  const std::shared_ptr<NcclRuntime> nccl = Find(group);
  if (nccl == nullptr) {
    return absl::UnavailableError("no device of the leader's process has NCCL");
  }
  const std::string why_not = WhyMayNotBlock(group, *nccl);
  if (!why_not.empty()) return absl::FailedPreconditionError(why_not);
  return nccl->NewUniqueId();
}

void AddNcclKey(NcclKeys& keys, CollGroupParams* group) {
  CollGroupParams::RuntimeDetails& details = group->runtime_details;
  if (!details.communicator_key.empty() || !details.key_status.ok()) return;
  absl::StatusOr<std::string> made = keys.NewKey(*group);
  details.key_status = made.status();
  if (made.ok()) details.communicator_key = *std::move(made);
}

absl::StatusOr<std::string> NcclKeyOf(const CollGroupParams& group) {
  const std::string& key = group.runtime_details.communicator_key;
  if (key.size() == kNcclIdBytes) return key;
  return absl::FailedPreconditionError(absl::StrCat(
      "the leader of group ", group.key, " made a communicator key of ",
      key.size(), " bytes; NCCL's has ", kNcclIdBytes));
}

}  // namespace tutti
