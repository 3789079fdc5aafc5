#include "remote/per_step_collective_remote_access.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tutti {

using PerStep = PerStepCollectiveRemoteAccess;

PerStep::PerStepCollectiveRemoteAccess(
    std::shared_ptr<CollectiveRemoteAccess> access, int64_t step_id)
    : access_(std::move(access)), step_id_(step_id) {}

PerStep::~PerStepCollectiveRemoteAccess() {
  PerStep::StartAbort(
      absl::CancelledError(absl::StrCat("step ", step_id_, " is over")));
  access_->Remove(*this, step_id_);
}

void PerStep::PostToPeer(const CollGroupMember& /*peer*/, const BufKey& key,
                         const Offer& offer) {
  access_->Post(key, offer);
}

void PerStep::RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                           const RecvRequest& recv) {
  access_->Recv(peer, key, recv);
}

void PerStep::CancelExecution(const CollGroupParams& group, const ExecKey& exec,
                              absl::Status reason) {
  // The end of a group is reported to all of its tasks elsewhere.
  if (group.cancellation->cancelled()) {
    return access_->EndGroup(group, exec.step);
  }
  const bool is_first = access_->Cancel(exec, reason);
  const bool tells_anyway = is_aborted_ && !is_over_ && AddTold(exec);
  if (group.cancellation->cancelled()) return;
  if (is_first || tells_anyway) access_->TellOthers(group, exec, reason);
}

void PerStep::WatchEnds(EndedCallback ended) {
  MutexLock lock(&mu_);
  ended_ = std::move(ended);
}

PeerAccessInterface::EndedCallback PerStep::ended() const {
  MutexLock lock(&mu_);
  return ended_;
}

absl::Status PerStep::StatusOf(const ExecKey& exec) const {
  return access_->StatusOf(exec);
}

void PerStep::ForgetExecution(const ExecKey& exec) {
  RemoveTold(exec);
  access_->Forget(exec);
}

void PerStep::StartAbort(absl::Status reason) {
  if (is_aborted_.exchange(true)) return;
  access_->EndTransfers(step_id_, reason);
}

std::string PerStep::DescribeWaiting(const CollGroupParams& group,
                                     const ExecKey& exec) {
  const std::string awaited = access_->DescribeWaiting(group, exec);
  CollectiveDelegate* const runs_it = delegate();
  const std::string by_delegate =
      runs_it == nullptr ? "" : runs_it->DescribeWaiting(group, exec);
  if (by_delegate.empty()) return awaited;
  return absl::StrCat(awaited, awaited.empty() ? "" : ", ", "data of ",
                      by_delegate);
}

CollectiveDelegate* PerStep::delegate() { return access_->delegate(); }

size_t PerStep::least_device_bytes() const {
  return access_->options_.transport->least_device_bytes();
}

bool PerStep::AddTold(const ExecKey& exec) {
  MutexLock lock(&mu_);
  return reported_.insert(exec).second;
}

void PerStep::RemoveTold(const ExecKey& exec) {
  MutexLock lock(&mu_);
  reported_.erase(exec);
}

}  // namespace tutti
