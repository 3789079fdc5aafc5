#ifndef TUTTI_OUTFEED_REMOTE_STREAM_LINK_H_
#define TUTTI_OUTFEED_REMOTE_STREAM_LINK_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/outfeed.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

namespace tutti {

// An end of a connection between processes. Moves bytes to and from the other
// end, as transfers of the executor's step in a group of the two ends. The peer
// is therefore checked as in any collective. The link ends with the group's
// generation, an abort of the step, or the loss of the peer.
//
// A failed transfer ends the link. An end at either side ends both sides and
// all transfers: each side always has a transfer under way that ends only with
// the link.
//
// Thread-safe. Callbacks run once, with no lock held: inside the call, on the
// thread of the second of the two sides, or on the thread that ends the link.
// An ended link stays alive until the callback of its last transfer has run.
class StreamLink : public std::enable_shared_from_this<StreamLink> {
 public:
  using ConnectCallback =
      absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<StreamLink>>) &&>;

  // Ranks of the ends in the group.
  static constexpr int kReceiver = 0;
  static constexpr int kSender = 1;

  // Waits for the other end: both ends connect, or neither does. `rank` is
  // kReceiver or kSender. Errors: INVALID_ARGUMENT for a null executor or
  // device; as CollectiveExecutor::Prepare().
  static void Connect(int rank, OutfeedConnection connection,
                      ConnectCallback done);

  ~StreamLink();
  StreamLink(const StreamLink&) = delete;
  StreamLink& operator=(const StreamLink&) = delete;

  // Posts bytes for the other end, which requests the same number under the
  // same tag. The bytes stay valid until `released` runs: with OK if the other
  // end has read them, else with the link's end. Tags are not negative. Two
  // transfers under way in one direction have different tags.
  void Post(int32_t tag, absl::Span<const std::byte> bytes,
            StatusCallback released);

  // Requests the bytes, at least 1, that the other end posts under the tag.
  // `into` stays valid until `done`.
  void Receive(int32_t tag, absl::Span<std::byte> into, StatusCallback done);

  // Ends the link at both ends. The first reason stays. A reason without the
  // sending end's name gets the names of both ends.
  void End(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // OK until the link has ended.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `watcher` at the end of the link; inside this call if it has ended.
  void WatchEnd(Cancellation::Watcher watcher) {
    ended_.Watch(std::move(watcher));
  }

  // Attributes of the end with that rank.
  const DeviceAttributes& device(int rank) const {
    return group_->members[static_cast<size_t>(rank)].device;
  }
  const Environment& environment() const { return executor_->environment(); }

 private:
  class Transfer;

  StreamLink(int rank, const OutfeedConnection& connection,
             std::shared_ptr<PreparedCollective> prepared);

  void WatchGroup() ABSL_LOCKS_EXCLUDED(mu_);
  void WatchPeer();
  void Meet(PreparedCollective::Limits limits, ConnectCallback done);
  BufKey KeyOf(int32_t tag, int from) const;

  // Begin() and EndUse() enclose every use of the peer. After the end, the last
  // EndUse() lets the peer access forget the connection.
  bool Begin(int num_uses) ABSL_LOCKS_EXCLUDED(mu_);
  void EndUse() ABSL_LOCKS_EXCLUDED(mu_);

  // Called after a transfer has begun: the link may have ended meanwhile.
  void EndBegun() ABSL_LOCKS_EXCLUDED(mu_);
  void CancelTransfers(const absl::Status& reason);
  absl::Status Named(const absl::Status& reason) const;

  const int rank_;
  const std::shared_ptr<CollectiveExecutor> executor_;
  const std::shared_ptr<PreparedCollective> prepared_;  // Keeps the group.
  const std::shared_ptr<const CollGroupParams> group_;
  const ExecKey exec_;
  Cancellation ended_;
  std::array<std::byte, 1> never_posted_ = {};  // Target of WatchPeer().

  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  int num_uses_ ABSL_GUARDED_BY(mu_) = 0;
  Cancellation::WatchId watch_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_REMOTE_STREAM_LINK_H_
