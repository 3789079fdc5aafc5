#include "gpu/nccl/nccl_keys.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tutti {

NcclKeys& NcclKeys::Global() {
  // Devices may live as long as the program.
  static NcclKeys* const keys = new NcclKeys();
  return *keys;
}

std::shared_ptr<void> NcclKeys::Add(uint64_t incarnation,
                                    std::shared_ptr<NcclRuntime> nccl) {
  if (nccl == nullptr) return nullptr;
  MutexLock lock(&mu_);
  const auto place = runtimes_.emplace(incarnation, std::move(nccl));
  return std::shared_ptr<void>(&place->second, [this, place](void*) {
    // The runtime may end here: not under the lock.
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
  if (nccl != nullptr) return nccl->NewUniqueId();
  return absl::UnavailableError(
      "no device of the leader's process has NCCL: give CreateCudaDevices() "
      "one (CudaDevicesOptions::nccl)");
}

void AddNcclKey(NcclKeys& keys, CollGroupParams* group) {
  std::string& key = group->runtime_details.communicator_key;
  if (!key.empty()) return;
  const absl::StatusOr<std::string> made = keys.NewKey(*group);
  if (!made.ok()) return AddNoNcclKey(made.status(), group);
  key = *made;
}

void AddNoNcclKey(const absl::Status& why, CollGroupParams* group) {
  std::string& key = group->runtime_details.communicator_key;
  if (!key.empty()) return;
  key = why.ToString();
  if (key.size() == kNcclIdBytes) key += ".";
}

absl::StatusOr<std::string> NcclKeyOf(const CollGroupParams& group) {
  const std::string& key = group.runtime_details.communicator_key;
  if (key.size() == kNcclIdBytes) return key;
  return absl::FailedPreconditionError(
      absl::StrCat("the leader of group ", group.key,
                   " made no key for NCCL's communicator: ",
                   key.empty() ? "NCCL is not linked there" : key));
}

}  // namespace tutti
