#ifndef TUTTI_FRAMEWORK_OUTFEED_CHANNEL_H_
#define TUTTI_FRAMEWORK_OUTFEED_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/status_callback.h"
#include "framework/tensor.h"

namespace tutti {

// The host's end of an OutfeedChannel.
class OutfeedListener {
 public:
  virtual ~OutfeedListener() = default;

  // `arrays`, at least one, are what was transferred and not taken, in that
  // order. Takes as many as it can keep, from the front: moves them out and
  // returns their number. If it leaves some it is not called again until
  // OutfeedChannel::Resume().
  //
  // The calls of one channel come one at a time, with no lock of its held, on
  // the thread of who transfers or resumes. Must not block.
  virtual size_t TakeArrays(absl::Span<Tensor> arrays) = 0;

  // Nothing more comes, because the device is lost or its stream broken: called
  // as TakeArrays() is, once, after all that came before was taken. The
  // listener ends the stream, by OutfeedChannel::End() with this status. Only
  // channels that can lose their device call it.
  virtual void OnFailed(absl::Status status) = 0;
};

// The way of arrays from one device to the host: first in, first out, bounded.
// It is a stream from the TransferFromOutfeed() of a listener to its End(), and
// then may become another. What the arrays mean is not its business.
//
// Thread-safe. The arrays go by reference where the device's memory is the
// host's: see TransferToOutfeed(). A listener is held until the end of its
// stream.
class OutfeedChannel {
 public:
  // Most bytes that one transfer may have.
  static constexpr int64_t kMaxTransferBytes = int64_t{1} << 62;

  struct Tallies {
    size_t queued_arrays = 0;
    int64_t queued_bytes = 0;  // Of those.
    size_t waiting_transfers = 0;
  };

  virtual ~OutfeedChannel() = default;

  // The device's side. Moves `arrays` into the channel, all at once, after all
  // transfers before. `done`, which may be null, runs with OK when they are in:
  // inside this call if there is room, later if not; but where this is called
  // by another such `done`, once that one has ended. Their bytes are the
  // channel's, and then the host's, from the call on: nobody may write them as
  // long as a tensor shares them. `done` says nothing of that.
  //
  // Errors, with which nothing is transferred: FAILED_PRECONDITION if nobody
  // has listened yet; the status with which the stream ended, also of a
  // transfer that waits then; INVALID_ARGUMENT above kMaxTransferBytes.
  virtual void TransferToOutfeed(absl::Span<Tensor> arrays,
                                 StatusCallback done) = 0;

  // The host's side. From now on, but not inside this call, `listener` is given
  // what is transferred. Errors: FAILED_PRECONDITION if somebody listens.
  virtual absl::Status TransferFromOutfeed(
      std::shared_ptr<OutfeedListener> listener) = 0;

  // The following do nothing if the stream is not, or no longer, `listener`'s.

  // Gives the listener what it left. May call it inside.
  virtual void Resume(const OutfeedListener& listener) = 0;

  // Transfers one more array, after all others and whether there is room or
  // not. Whatever is transferred later fails with `refusal`.
  virtual void Close(const OutfeedListener& listener, Tensor last,
                     absl::Status refusal) = 0;

  // Ends the stream: drops what the listener has not taken; what waits, and
  // what is transferred later, fails with `status`. A call of the listener may
  // still be under way.
  virtual void End(const OutfeedListener& listener, absl::Status status) = 0;

  virtual Tallies tallies() const = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_OUTFEED_CHANNEL_H_
