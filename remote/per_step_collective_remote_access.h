#ifndef TUTTI_REMOTE_PER_STEP_COLLECTIVE_REMOTE_ACCESS_H_
#define TUTTI_REMOTE_PER_STEP_COLLECTIVE_REMOTE_ACCESS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "framework/collective/collective_delegate.h"
#include "remote/collective_remote_access.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// Transport of one step, made by CollectiveRemoteAccess::ForStep(). Its
// transfers end with it. Reports the executions that have failed here to other
// tasks.
//
// Thread-safe. Sender and Receiver callbacks run as in CollectiveRemoteAccess.
class PerStepCollectiveRemoteAccess final : public PeerAccessInterface {
 public:
  PerStepCollectiveRemoteAccess(std::shared_ptr<CollectiveRemoteAccess> access,
                                int64_t step_id);
  ~PerStepCollectiveRemoteAccess() override;

  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override;
  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const RecvRequest& recv) override;
  void CancelExecution(const CollGroupParams& group, const ExecKey& exec,
                       absl::Status reason) override ABSL_LOCKS_EXCLUDED(mu_);
  void WatchEnds(EndedCallback ended) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status StatusOf(const ExecKey& exec) const override;
  void ForgetExecution(const ExecKey& exec) override ABSL_LOCKS_EXCLUDED(mu_);
  void StartAbort(absl::Status reason) override;
  std::string DescribeWaiting(const CollGroupParams& group,
                              const ExecKey& exec) override;
  CollectiveDelegate* delegate() override;
  size_t least_device_bytes() const override;

  // Returns the callback of WatchEnds(), or null.
  EndedCallback ended() const ABSL_LOCKS_EXCLUDED(mu_);

  // Stops all reports of the step, which has ended on all tasks.
  void SetOver() { is_over_ = true; }

 private:
  bool AddTold(const ExecKey& exec) ABSL_LOCKS_EXCLUDED(mu_);
  void RemoveTold(const ExecKey& exec) ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<CollectiveRemoteAccess> access_;
  const int64_t step_id_;
  mutable Mutex mu_;
  EndedCallback ended_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_set<ExecKey> reported_
      ABSL_GUARDED_BY(mu_);  // Since the abort.
  std::atomic<bool> is_aborted_{false};
  std::atomic<bool> is_over_{false};
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_PER_STEP_COLLECTIVE_REMOTE_ACCESS_H_
