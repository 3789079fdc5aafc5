#ifndef TUTTI_TESTS_DOUBLES_FAILING_PEER_ACCESS_H_
#define TUTTI_TESTS_DOUBLES_FAILING_PEER_ACCESS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/doubles/forwarding_peer_access.h"
#include "tutti/peer_access.h"

namespace tutti {

// Forwards transfers to another PeerAccessInterface and fails the n-th one.
// Counts sends and receives together from 1, in the order in which they begin;
// n = 0 fails none. Thread-safe.
class FailNthTransfer : public ForwardingPeerAccess {
 public:
  FailNthTransfer(std::unique_ptr<PeerAccessInterface> target, int64_t n)
      : ForwardingPeerAccess(std::move(target)), n_(n) {}

  void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                  const Offer& offer) override {
    if (IsTheOne()) return offer.sender->OnReleased(offer.id, Failure());
    target().PostToPeer(peer, key, offer);
  }
  void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                    const RecvRequest& recv) override {
    if (IsTheOne()) return recv.receiver->OnDelivery(recv.id, Failure(), {});
    target().RecvFromPeer(peer, key, recv);
  }

  // Number of transfers begun.
  int64_t num_transfers() const { return num_transfers_; }

 private:
  bool IsTheOne() { return ++num_transfers_ == n_; }
  absl::Status Failure() const {
    return absl::UnavailableError(
        absl::StrCat("transfer ", n_, " was made to fail"));
  }

  const int64_t n_;
  std::atomic<int64_t> num_transfers_{0};
};

}  // namespace tutti

#endif  // TUTTI_TESTS_DOUBLES_FAILING_PEER_ACCESS_H_
