#ifndef TUTTI_PEER_ACCESS_H_
#define TUTTI_PEER_ACCESS_H_

// PeerAccessInterface: the only way in which bytes move between the members of
// a group, under keys that name one transfer of one execution. The sender posts
// bytes, which stay valid until the receiver releases them. Thread-safe;
// senders and receivers are called with no lock held.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tutti/tensor.h"

namespace tutti {

// Names one execution of one collective, among all executions ever.
struct ExecKey {
  uint64_t generation = 0;  // Generation of the group.
  int64_t step = 0;
  int64_t group = 0;
  int64_t instance = 0;
  uint64_t execution = 0;

  friend bool operator==(const ExecKey&, const ExecKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const ExecKey& key) {
    return H::combine(std::move(h), key.generation, key.step, key.group,
                      key.instance, key.execution);
  }
};

// Names one transfer of an execution. `from` and `to` are ranks.
struct BufKey {
  ExecKey exec;
  int32_t tag = 0;
  int32_t from = 0;
  int32_t to = 0;

  friend bool operator==(const BufKey&, const BufKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const BufKey& key) {
    return H::combine(std::move(h), key.exec, key.tag, key.from, key.to);
  }
};

// Returns "step 1, group 2 (generation 3), instance 4, execution 5".
std::string ToString(const ExecKey& key);

// Returns the same and ", rank 0 to rank 1, tag 2".
std::string ToString(const BufKey& key);

class CollectiveDelegate;
class DeviceFence;
class DeviceLanding;
struct CollGroupMember;
struct CollGroupParams;

// Sender's callback. Called exactly once for each offer: with OK once the peer
// has read the bytes, else with the error that prevented it. From then on the
// bytes belong to the sender again.
class Sender {
 public:
  virtual ~Sender() = default;
  virtual void OnReleased(int32_t id, absl::Status status) = 0;

  // Replaces OnReleased() for an offer with a fence, if the read is only
  // enqueued on the peer's stream. The bytes belong to the sender again after
  // `read`, which is valid during the call.
  virtual void OnReleasedAfter(int32_t id, const DeviceFence& /*read*/) {
    OnReleased(id, absl::UnimplementedError("the sender knows no fences"));
  }
};

// Bytes that the sending side posts.
struct Offer {
  absl::Span<const std::byte> bytes;  // Valid until OnReleased().
  DType dtype = DType::kFloat32;
  uint64_t incarnation = 0;  // Incarnation of the sender's device.
  Sender* sender = nullptr;
  int32_t id = 0;  // Number of this offer for `sender`.

  // Fence after which the bytes are valid; it lives as long as the bytes. Null:
  // valid now. Only for peers in this process.
  const DeviceFence* written = nullptr;
};

// Bytes that the receiving side gets. The receiver calls Release() exactly
// once, on any thread.
struct Delivery {
  absl::Span<const std::byte> bytes;
  Sender* sender = nullptr;  // Null if the bytes came in parts.
  int32_t id = 0;
  const DeviceFence* written = nullptr;  // See Offer; valid until Release().

  void Release(absl::Status status) const {
    if (sender != nullptr) sender->OnReleased(id, std::move(status));
  }
};

// Receiver's callback. OnDelivery() is called exactly once for each request:
// with OK and the delivery, or with an error and nothing to release.
//
// Bytes that are not in one buffer come in parts before OnDelivery(), which
// then has no bytes. Parts come in order, one call at a time, each a whole
// number of elements. An error may follow some of the parts.
class Receiver {
 public:
  virtual ~Receiver() = default;

  // Gets the bytes from `offset` on. They are valid during the call, or already
  // at their place (RecvRequest::into). An error ends the transfer, and
  // OnDelivery() gets it. The default returns an error: not all receivers take
  // parts.
  virtual absl::Status OnPart(int32_t /*id*/, size_t /*offset*/,
                              absl::Span<const std::byte> /*part*/) {
    return absl::UnimplementedError("the receiver takes no bytes in parts");
  }

  virtual void OnDelivery(int32_t id, absl::Status status,
                          Delivery delivery) = 0;

  // Returns a landing for the next part of `num_bytes`, which may never come.
  // Null, the default: any host memory. Called before OnDelivery(), only by a
  // transport that can write to a device's memory
  // (PeerAccessInterface::least_device_bytes()). The transport keeps the
  // landing while a write to it may run.
  virtual std::shared_ptr<DeviceLanding> Land(int32_t /*id*/,
                                              size_t /*num_bytes*/) {
    return nullptr;
  }

  // Replaces OnPart() for a part that was written to a landing of Land().
  virtual absl::Status OnLanded(int32_t /*id*/, size_t /*offset*/,
                                std::shared_ptr<DeviceLanding> /*part*/) {
    return absl::UnimplementedError("the receiver has no landings");
  }
};

// Larger than every size: no device bytes.
inline constexpr size_t kNoDeviceBytes = std::numeric_limits<size_t>::max();

// Request of the receiving side.
struct RecvRequest {
  size_t num_bytes = 0;
  DType dtype = DType::kFloat32;
  uint64_t incarnation = 0;  // Incarnation of the sender's device in the group.
  Receiver* receiver = nullptr;
  int32_t id = 0;  // Number of this request for `receiver`.

  // Final place of the bytes: `num_bytes` of host memory. Until OnDelivery(),
  // the transport may write parts there, each at its offset and before its
  // OnPart(). Empty: no such place.
  absl::Span<std::byte> into;
};

// Moves bytes between the members of a group: the only way. Thread-safe.
// Lenders and receivers are called on the thread of the second side to arrive,
// or of the caller that cancels, with no lock held.
class PeerAccessInterface {
 public:
  virtual ~PeerAccessInterface() = default;

  // Posts bytes to `peer`, which is key.to. Errors go to the sender.
  virtual void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                          const Offer& offer) = 0;

  // Requests bytes from `peer`, which is key.from. Errors go to the receiver.
  virtual void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                            const RecvRequest& recv) = 0;

  // Ends transfers of `exec`, an execution in `group`, with `reason`, on all
  // members: all that have not met their other side, and all later ones. Does
  // not touch a delivery that is being read. The first reason stays.
  virtual void CancelExecution(const CollGroupParams& group,
                               const ExecKey& exec, absl::Status reason) = 0;

  // Sets the callback for executions that a member of another process ends.
  // Call once, before anything else. `ended` runs after the execution's
  // transfers here have ended, perhaps several times, with no lock held:
  // members here may wait for something else. It may run after this object is
  // destroyed. By default it never runs, because all members are in this
  // process.
  using EndedCallback =
      std::function<void(const ExecKey& exec, const absl::Status& reason)>;
  virtual void WatchEnds(EndedCallback /*ended*/) {}

  // Returns the reason that ended the transfers of `exec`, else OK. Members
  // call it before they begin: the execution may have ended before the first
  // one arrived.
  virtual absl::Status StatusOf(const ExecKey& exec) const = 0;

  // Forgets that `exec` was cancelled. The caller promises that no more
  // transfers of `exec` come from this process.
  virtual void ForgetExecution(const ExecKey& exec) = 0;

  // Ends all transfers with `reason`, for ever, on this process's side only.
  // Peers see their transfers with this process end.
  virtual void StartAbort(absl::Status reason) = 0;

  // Describes the data that members of this process still wait for in `exec`,
  // for error messages: "data of rank 3 (/job:...)". Empty if none.
  virtual std::string DescribeWaiting(const CollGroupParams& group,
                                      const ExecKey& exec) = 0;

  // Smallest transfer that uses device memory between processes. From this size
  // on, members of other processes can read a landing of a device
  // (StepStream::Land()) and write to a landing (Receiver::Land()). All other
  // transfers go through host memory. Default: all transfers do.
  virtual size_t least_device_bytes() const { return kNoDeviceBytes; }

  // Delegate that can run whole collectives among the processes; null: none.
  virtual CollectiveDelegate* delegate() { return nullptr; }
};

}  // namespace tutti

#endif  // TUTTI_PEER_ACCESS_H_
