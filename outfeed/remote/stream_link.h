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

// One end of such a connection: moves bytes to and from the other end, by the
// transfers of the executor's step and under the group that both are members
// of. So a peer is checked as in any collective, and the end of the group's
// generation, an abort of the step and the loss of the peer end the link.
//
// Any transfer that fails ends the link, and whoever ends it ends it at both
// ends, with all transfers: each has one under way that only the end ends.
//
// Thread-safe. Callbacks run once, inside the call or on the thread of the side
// that came second or of the one that ends the link, with no lock held. An
// ended link keeps itself until its last transfer is told.
class StreamLink : public std::enable_shared_from_this<StreamLink> {
 public:
  using ConnectCallback =
      absl::AnyInvocable<void(absl::StatusOr<std::shared_ptr<StreamLink>>) &&>;

  // In the group, and the names of the ends.
  static constexpr int kReceiver = 0;
  static constexpr int kSender = 1;

  // Waits for the other end: both have connected, or neither. `rank` is one of
  // the above. Errors: INVALID_ARGUMENT for a null executor or device; those of
  // CollectiveExecutor::Prepare().
  static void Connect(int rank, OutfeedConnection connection,
                      ConnectCallback done);

  ~StreamLink();
  StreamLink(const StreamLink&) = delete;
  StreamLink& operator=(const StreamLink&) = delete;

  // Lends bytes to the other end, which asks for so many under the same tag.
  // They stay valid until `released`, which hears OK if they were read, else
  // how the link ended. Tags are not negative; no two transfers of one
  // direction that are under way have the same.
  void Lend(int32_t tag, absl::Span<const std::byte> bytes,
            StatusCallback released);

  // Asks the other end for the bytes, at least one, that it lends under the
  // tag. `into` stays valid until `done`.
  void Ask(int32_t tag, absl::Span<std::byte> into, StatusCallback done);

  // Ends the link at both ends. The first reason stays; it gets the names of
  // the ends if it does not have that of the sending one.
  void End(absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // OK until the link has ended.
  absl::Status status() const ABSL_LOCKS_EXCLUDED(mu_);

  // Runs `watcher` when the link has ended; inside this call if it has.
  void WatchEnd(Cancellation::Watcher watcher) {
    ended_.Watch(std::move(watcher));
  }

  // Of either end.
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

  // Around all that is done with the peer; after the end, the last one lets it
  // forget the connection.
  bool Begin(int num_uses) ABSL_LOCKS_EXCLUDED(mu_);
  void EndUse() ABSL_LOCKS_EXCLUDED(mu_);

  // After a transfer has begun: the link may have ended meanwhile.
  void EndBegun() ABSL_LOCKS_EXCLUDED(mu_);
  void CancelTransfers(const absl::Status& reason);
  absl::Status Named(const absl::Status& reason) const;

  const int rank_;
  const std::shared_ptr<CollectiveExecutor> executor_;
  const std::shared_ptr<PreparedCollective> prepared_;  // Keeps the group.
  const std::shared_ptr<const CollGroupParams> group_;
  const ExecKey exec_;
  Cancellation ended_;
  std::array<std::byte, 1> never_lent_ = {};  // Where WatchPeer()'s would go.

  mutable Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  int num_uses_ ABSL_GUARDED_BY(mu_) = 0;
  Cancellation::WatchId watch_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_REMOTE_STREAM_LINK_H_
