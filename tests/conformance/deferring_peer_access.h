#ifndef TUTTI_TESTS_CONFORMANCE_DEFERRING_PEER_ACCESS_H_
#define TUTTI_TESTS_CONFORMANCE_DEFERRING_PEER_ACCESS_H_

#include <memory>
#include <string>
#include <utility>

#include "framework/environment.h"
#include "framework/peer_access.h"

namespace tutti::conformance {

// Passes transfers on from the work queue, each as work of its own, so that
// their order is that of the queue: as seeds or threads make it.
class DeferringPeerAccess : public PeerAccessInterface {
 public:
  // `queue` outlives all transfers.
  DeferringPeerAccess(std::unique_ptr<PeerAccessInterface> target,
                      WorkQueue* queue)
      : target_(std::move(target)), queue_(queue) {}

  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override {
    queue_->Schedule(
        [this, &peer, key, offer] { target_->PostToPeer(peer, key, offer); });
  }
  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const Ask& ask) override {
    queue_->Schedule(
        [this, &peer, key, ask] { target_->RecvFromPeer(peer, key, ask); });
  }
  void CancelExecution(const CollGroupParams& group, const ExecKey& exec,
                       absl::Status reason) override {
    target_->CancelExecution(group, exec, std::move(reason));
  }
  void WatchEnds(EndedCallback ended) override {
    target_->WatchEnds(std::move(ended));
  }
  absl::Status StatusOf(const ExecKey& exec) const override {
    return target_->StatusOf(exec);
  }
  void ForgetExecution(const ExecKey& exec) override {
    target_->ForgetExecution(exec);
  }
  void StartAbort(absl::Status reason) override {
    target_->StartAbort(std::move(reason));
  }
  std::string DescribeWaiting(const CollGroupParams& group,
                              const ExecKey& exec) override {
    return target_->DescribeWaiting(group, exec);
  }

 private:
  const std::unique_ptr<PeerAccessInterface> target_;
  WorkQueue* const queue_;
};

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_DEFERRING_PEER_ACCESS_H_
