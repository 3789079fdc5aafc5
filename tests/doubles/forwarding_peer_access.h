#ifndef TUTTI_TESTS_DOUBLES_FORWARDING_PEER_ACCESS_H_
#define TUTTI_TESTS_DOUBLES_FORWARDING_PEER_ACCESS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "tutti/peer_access.h"

namespace tutti {

// Forwards all calls to another PeerAccessInterface, for tests that change some
// of them.
class ForwardingPeerAccess : public PeerAccessInterface {
 public:
  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override {
    target_->PostToPeer(peer, key, offer);
  }
  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const RecvRequest& recv) override {
    target_->RecvFromPeer(peer, key, recv);
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
  size_t least_device_bytes() const override {
    return target_->least_device_bytes();
  }
  CollectiveDelegate* delegate() override { return target_->delegate(); }

 protected:
  explicit ForwardingPeerAccess(std::unique_ptr<PeerAccessInterface> target)
      : target_(std::move(target)) {}

  PeerAccessInterface& target() { return *target_; }

 private:
  const std::unique_ptr<PeerAccessInterface> target_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_FORWARDING_PEER_ACCESS_H_
