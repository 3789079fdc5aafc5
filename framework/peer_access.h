#ifndef TUTTI_FRAMEWORK_PEER_ACCESS_H_
#define TUTTI_FRAMEWORK_PEER_ACCESS_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/buf_key.h"
#include "framework/dtype.h"
#include "framework/status_callback.h"

namespace tutti {

struct CollGroupMember;

// What the sending side lends. The bytes stay valid until `released` runs, with
// OK once the peer has read them, else with what prevented it.
struct Offer {
  absl::Span<const std::byte> bytes;
  DType dtype = DType::kFloat32;
  uint64_t incarnation = 0;  // Of the sender's device.
  StatusCallback released;
};

// What the receiving side gets to read. It ends the loan by running
// `std::move(released)(OkStatus())`, exactly once, on any thread.
struct Delivery {
  absl::Span<const std::byte> bytes;
  StatusCallback released;
};

// What the receiving side wants. `consumer` runs exactly once: with OK and the
// delivery, or with an error and nothing to release.
struct Ask {
  using Consumer = absl::AnyInvocable<void(absl::Status, Delivery) &&>;

  size_t num_bytes = 0;
  DType dtype = DType::kFloat32;
  uint64_t incarnation = 0;  // Of the sender's device, as the group knows it.
  Consumer consumer;
};

// How bytes move between the members of a group: the only way. Thread-safe.
// Callbacks run on the thread of the side that came second, or of the one that
// cancels, with no lock held.
class PeerAccessInterface {
 public:
  virtual ~PeerAccessInterface() = default;

  // Lends bytes to `peer`, who is key.to. Errors go to `offer.released`.
  virtual void PostToPeer(const CollGroupMember& peer, const BufKey& key,
                          Offer offer) = 0;

  // Asks `peer`, who is key.from, for bytes. Errors go to `ask.consumer`.
  virtual void RecvFromPeer(const CollGroupMember& peer, const BufKey& key,
                            Ask ask) = 0;

  // Ends all transfers of `exec` that have not met their other side, and those
  // that come later, with `reason`, on all members. A delivery that is being
  // read is not touched. The first reason stays.
  virtual void CancelExecution(const ExecKey& exec, absl::Status reason) = 0;

  // No transfer of `exec` comes any more from this process: forgets that it was
  // cancelled.
  virtual void ForgetExecution(const ExecKey& exec) = 0;

  // As CancelExecution, for everything, for ever.
  virtual void StartAbort(absl::Status reason) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_PEER_ACCESS_H_
