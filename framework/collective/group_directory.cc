#include "framework/collective/group_directory.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tutti {

void GroupDirectory::Add(std::shared_ptr<const CollGroupParams> group) {
  const GroupKey key = group->key;
  const uint64_t generation = group->generation;
  std::shared_ptr<const CollGroupParams> replaced;
  const auto reason = absl::AbortedError(absl::StrCat(
      "group ", key, " was formed again, as generation ", generation));
  {
    MutexLock lock(&mu_);
    if (!entries_.contains(key) && generation <= forgotten_) return;
    Entry& entry = entries_[key];
    if (generation <= entry.ended_generation) return;
    newest_added_ = std::max(newest_added_, generation);
    if (entry.living != nullptr) {
      if (generation <= entry.living->generation) return;
      entry.ended_generation = entry.living->generation;
      entry.reason = reason;
    }
    replaced = std::exchange(entry.living, std::move(group));
  }
  if (replaced != nullptr) replaced->cancellation->Cancel(reason);
  if (listener_) listener_(key, generation);
}

bool GroupDirectory::End(GroupKey key, uint64_t generation,
                         absl::Status reason) {
  if (reason.ok()) reason = absl::CancelledError("the group was ended");
  std::shared_ptr<const CollGroupParams> ended;
  {
    MutexLock lock(&mu_);
    if (!entries_.contains(key) && generation <= forgotten_) return false;
    Entry& entry = entries_[key];
    if (generation <= entry.ended_generation) return false;
    entry.ended_generation = generation;
    entry.reason = reason;
    ends_.emplace_back(key, generation);
    if (entry.living != nullptr && entry.living->generation <= generation) {
      ended = std::move(entry.living);
      entry.living = nullptr;
    }
    Forget();
  }
  if (ended != nullptr) ended->cancellation->Cancel(std::move(reason));
  if (listener_) listener_(key, generation);
  return true;
}

void GroupDirectory::Forget() {
  while (ends_.size() > kMaxEnded) {
    const auto [key, generation] = ends_.front();
    ends_.pop_front();
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.living != nullptr ||
        found->second.ended_generation != generation) {
      continue;
    }
    forgotten_ = std::max(forgotten_, std::min(generation, newest_added_));
    entries_.erase(found);
  }
}

absl::StatusOr<std::shared_ptr<const CollGroupParams>> GroupDirectory::Find(
    GroupKey key, uint64_t generation) const {
  if (generation == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("group ", key, ": no group has generation 0"));
  }
  MutexLock lock(&mu_);
  const auto found = entries_.find(key);
  if (found != entries_.end()) {
    const Entry& entry = found->second;
    if (generation <= entry.ended_generation) {
      return absl::Status(
          entry.reason.code(),
          absl::StrCat("generation ", generation, " of group ", key,
                       " has ended: ", entry.reason.message()));
    }
    if (entry.living != nullptr && entry.living->generation == generation) {
      return entry.living;
    }
  }
  if (found == entries_.end() && generation <= forgotten_) {
    return absl::AbortedError(absl::StrCat("generation ", generation,
                                           " of group ", key, " has ended"));
  }
  return absl::NotFoundError(absl::StrCat(
      "generation ", generation, " of group ", key, " is not known here"));
}

uint64_t GroupDirectory::EndedGeneration(GroupKey key) const {
  MutexLock lock(&mu_);
  const auto found = entries_.find(key);
  return found == entries_.end() ? forgotten_ : found->second.ended_generation;
}

std::vector<std::shared_ptr<const CollGroupParams>> GroupDirectory::Living()
    const {
  MutexLock lock(&mu_);
  std::vector<std::shared_ptr<const CollGroupParams>> living;
  for (const auto& [key, entry] : entries_) {
    if (entry.living != nullptr) living.push_back(entry.living);
  }
  return living;
}

}  // namespace tutti
