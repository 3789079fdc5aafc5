#ifndef TUTTI_TESTS_CONFORMANCE_DEFERRING_PEER_ACCESS_H_
#define TUTTI_TESTS_CONFORMANCE_DEFERRING_PEER_ACCESS_H_

#include <memory>
#include <utility>

#include "tests/doubles/forwarding_peer_access.h"
#include "tutti/environment.h"
#include "tutti/peer_access.h"

namespace tutti::conformance {

// Passes transfers on from the work queue, each as work of its own, so that
// their order is that of the queue: as seeds or threads make it.
class DeferringPeerAccess : public ForwardingPeerAccess {
 public:
  // `queue` outlives all transfers.
  DeferringPeerAccess(std::unique_ptr<PeerAccessInterface> target,
                      WorkQueue* queue)
      : ForwardingPeerAccess(std::move(target)), queue_(queue) {}

  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override {
    queue_->Schedule(
        [this, &peer, key, offer] { target().PostToPeer(peer, key, offer); });
  }
  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const RecvRequest& recv) override {
    queue_->Schedule(
        [this, &peer, key, recv] { target().RecvFromPeer(peer, key, recv); });
  }

 private:
  WorkQueue* const queue_;
};

}  // namespace tutti::conformance

#endif  // TUTTI_TESTS_CONFORMANCE_DEFERRING_PEER_ACCESS_H_
