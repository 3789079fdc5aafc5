#ifndef TUTTI_PEER_ACCESS_H_
#define TUTTI_PEER_ACCESS_H_

// PeerAccessInterface: the only way by which bytes move between the members
// of a group, under keys that name one transfer of one execution. The sender
// lends bytes until the receiver releases them. Thread-safe; lenders and
// borrowers run with no lock held.

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

// One execution of one collective, among all there ever are.
struct ExecKey {
  uint64_t generation = 0;  // Of the group.
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

// One transfer of it. `from` and `to` are ranks.
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

// "step 1, group 2 (generation 3), instance 4, execution 5".
std::string ToString(const ExecKey& key);

// The same and ", rank 0 to rank 1, tag 2".
std::string ToString(const BufKey& key);

class CollectiveDelegate;
class DeviceFence;
class DeviceLanding;
struct CollGroupMember;
struct CollGroupParams;

// Whoever lends bytes. Told exactly once for each offer: with OK once the peer
// has read them, else with what prevented it; from then on the bytes are its
// own again.
class Lender {
 public:
  virtual ~Lender() = default;
  virtual void OnReleased(int32_t id, absl::Status status) = 0;

  // In its place for an offer with a fence, where what reads the bytes is only
  // put on the peer's stream: they are the lender's again after `read`, which
  // is valid during the call.
  virtual void OnReleasedAfter(int32_t id, const DeviceFence& /*read*/) {
    OnReleased(id, absl::UnimplementedError("the sender knows no fences"));
  }
};

// What the sending side lends.
struct Offer {
  absl::Span<const std::byte> bytes;  // Valid until OnReleased().
  DType dtype = DType::kFloat32;
  uint64_t incarnation = 0;  // Of the sender's device.
  Lender* lender = nullptr;
  int32_t id = 0;  // The lender's name for it.

  // The bytes are there after this, which is valid as they are. Null: now. Only
  // to members of this process.
  const DeviceFence* written = nullptr;
};

// What the receiving side gets to read. It ends the loan by Release(), exactly
// once, on any thread.
struct Delivery {
  absl::Span<const std::byte> bytes;
  Lender* lender = nullptr;  // Null if the bytes came in parts.
  int32_t id = 0;
  const DeviceFence* written = nullptr;  // As in Offer; valid until Release().

  void Release(absl::Status status) const {
    if (lender != nullptr) lender->OnReleased(id, std::move(status));
  }
};

// Whoever asks for bytes. Told exactly once for each request: with OK and the
// delivery, or with an error and nothing to release.
//
// Bytes that no single buffer holds come in parts before that: one call at a
// time, in order, each a whole number of elements, all together what was asked
// for; OnDelivery() then has none. An error may follow some of the parts.
class Borrower {
 public:
  virtual ~Borrower() = default;

  // Bytes from `offset` on, valid during the call, or where they go already
  // (Ask::into). An error ends the transfer: OnDelivery() gets it. By default
  // one: not all borrowers take parts.
  virtual absl::Status OnPart(int32_t /*id*/, size_t /*offset*/,
                              absl::Span<const std::byte> /*part*/) {
    return absl::UnimplementedError("the receiver takes no bytes in parts");
  }

  virtual void OnDelivery(int32_t id, absl::Status status,
                          Delivery delivery) = 0;

  // Where the next part of so many bytes is to come, which may not come; null:
  // anywhere in the host's memory, as by default. Only who can write to a
  // device's memory asks (PeerAccessInterface::least_device_bytes()), before
  // OnDelivery(), and keeps it as long as something may write there.
  virtual std::shared_ptr<DeviceLanding> Land(int32_t /*id*/,
                                              size_t /*num_bytes*/) {
    return nullptr;
  }

  // In place of OnPart() for a part that has come to such a landing.
  virtual absl::Status OnLanded(int32_t /*id*/, size_t /*offset*/,
                                std::shared_ptr<DeviceLanding> /*part*/) {
    return absl::UnimplementedError("the receiver has no landings");
  }
};

// More than there are.
inline constexpr size_t kNoDeviceBytes = std::numeric_limits<size_t>::max();

// What the receiving side wants.
struct Ask {
  size_t num_bytes = 0;
  DType dtype = DType::kFloat32;
  uint64_t incarnation = 0;  // Of the sender's device, as the group knows it.
  Borrower* borrower = nullptr;
  int32_t id = 0;  // The borrower's name for it.

  // Where the bytes go as they are, `num_bytes` of the host's memory: whoever
  // brings them may put parts there, at their offsets, before it calls OnPart()
  // for these, until it calls OnDelivery(). Empty: nowhere.
  absl::Span<std::byte> into;
};

// How bytes move between the members of a group: the only way. Thread-safe.
// Lenders and borrowers are called on the thread of the side that came second,
// or of the one that cancels, with no lock held.
class PeerAccessInterface {
 public:
  virtual ~PeerAccessInterface() = default;

  // Lends bytes to `peer`, who is key.to. Errors go to the lender.
  virtual void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                          const Offer& offer) = 0;

  // Asks `peer`, who is key.from, for bytes. Errors go to the borrower.
  virtual void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                            const Ask& ask) = 0;

  // Ends all transfers of `exec`, an execution in `group`, that have not met
  // their other side, and those that come later, with `reason`, on all members.
  // A delivery that is being read is not touched. The first reason stays.
  virtual void CancelExecution(const CollGroupParams& group,
                               const ExecKey& exec, absl::Status reason) = 0;

  // Call once, before anything else. `ended` runs when a member of another
  // process ends an execution, perhaps several times for one, after its
  // transfers here have ended, with no lock held: members here may wait for
  // something else. It may run after this is gone. By default it never runs: no
  // member is in another process.
  using EndedCallback =
      std::function<void(const ExecKey& exec, const absl::Status& reason)>;
  virtual void WatchEnds(EndedCallback /*ended*/) {}

  // What ends the transfers of `exec`; OK if nothing does. Asked before a
  // member begins: the execution may have ended before the first one here came.
  virtual absl::Status StatusOf(const ExecKey& exec) const = 0;

  // No transfer of `exec` comes any more from this process: forgets that it was
  // cancelled.
  virtual void ForgetExecution(const ExecKey& exec) = 0;

  // As CancelExecution, for everything, for ever, but on this process's side
  // alone: its peers see their transfers with it end.
  virtual void StartAbort(absl::Status reason) = 0;

  // What the members of this process still wait for in `exec`, for error
  // messages: "data of rank 3 (/job:...)". Empty if it is nothing.
  virtual std::string DescribeWaiting(const CollGroupParams& group,
                                      const ExecKey& exec) = 0;

  // Of so many bytes on, members of other processes can get what lies in a
  // device's landing (StepStream::Land()) from there, and write to one
  // (Borrower::Land()). Of fewer, as by default of any number, and of all else,
  // they get what lies in the host's memory.
  virtual size_t least_device_bytes() const { return kNoDeviceBytes; }

  // Who can run whole collectives among the processes; null: nobody.
  virtual CollectiveDelegate* delegate() { return nullptr; }
};

}  // namespace tutti

#endif  // TUTTI_PEER_ACCESS_H_
