#ifndef TUTTI_OUTFEED_MEMORY_CHANNEL_H_
#define TUTTI_OUTFEED_MEMORY_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {

// The channel of a device whose memory is the host's: arrays go by reference,
// no byte is copied. What the listener takes at once never queues; a transfer
// costs two short holds of one lock, and allocates nothing unless it waits.
class MemoryChannel : public OutfeedChannel {
 public:
  // How much may lie here that the listener has not taken. One transfer, of
  // whatever size, may always.
  struct Options {
    int64_t capacity_bytes = int64_t{1} << 20;
    size_t capacity_arrays = 1024;
  };

  // `name` is who it says it is in its errors.
  MemoryChannel(std::string name, const Options& options);

  // What waits fails with CANCELLED.
  ~MemoryChannel() override;

  void TransferToOutfeed(absl::Span<Tensor> arrays,
                         StatusCallback done) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status TransferFromOutfeed(std::shared_ptr<OutfeedListener> listener)
      override ABSL_LOCKS_EXCLUDED(mu_);
  void Resume(const OutfeedListener& listener) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void Close(const OutfeedListener& listener, Tensor last,
             absl::Status refusal) override ABSL_LOCKS_EXCLUDED(mu_);
  void End(const OutfeedListener& listener, absl::Status status) override
      ABSL_LOCKS_EXCLUDED(mu_);
  Tallies tallies() const override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using ListenerPtr = std::shared_ptr<OutfeedListener>;

  struct Waiting {
    std::vector<Tensor> arrays;
    int64_t num_bytes = 0;
    StatusCallback done;
  };
  bool HasRoom(size_t num_arrays, int64_t num_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Push(absl::Span<Tensor> arrays, int64_t num_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AdmitWaiting(std::vector<StatusCallback>& admitted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Offering: one thread at a time gives the listener what is there. It begins
  // with BeginOffers() under the lock, and Offer()s what that returns.
  ListenerPtr BeginOffers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ListenerPtr NextOffer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Offer(ListenerPtr listener) ABSL_LOCKS_EXCLUDED(mu_);
  ListenerPtr EndOffer(size_t num_taken, std::vector<StatusCallback>& admitted,
                       std::vector<Tensor>& dropped) ABSL_LOCKS_EXCLUDED(mu_);

  const std::string name_;
  const Options options_;

  mutable Mutex mu_;
  ListenerPtr listener_ ABSL_GUARDED_BY(mu_);
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);  // OK: transfers are accepted.
  std::vector<Tensor> queue_ ABSL_GUARDED_BY(mu_);  // Behind `offered_`.
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  Tallies tallies_ ABSL_GUARDED_BY(mu_);  // Of `queue_` and `offered_`.
  uint64_t num_streams_ ABSL_GUARDED_BY(mu_) = 0;

  bool is_offering_ ABSL_GUARDED_BY(mu_) = false;
  bool is_paused_ ABSL_GUARDED_BY(mu_) = false;
  bool is_resumed_ ABSL_GUARDED_BY(mu_) = false;  // While it was offering.

  // The offering thread's, under the lock when there is none.
  std::vector<Tensor> offered_;
  size_t offered_begin_ = 0;           // Those before are taken.
  int64_t offered_bytes_ = 0;          // Of the others.
  std::vector<int64_t> offered_ends_;  // Bytes up to each, from the first on.
  uint64_t offered_stream_ = 0;        // As num_streams_ was.
};

// The device's channel. One that has none gets a MemoryChannel. Errors:
// UNIMPLEMENTED for a device without a channel whose type is not CPU.
absl::StatusOr<std::shared_ptr<OutfeedChannel>> OutfeedChannelOf(
    Device& device);

}  // namespace tutti

#endif  // TUTTI_OUTFEED_MEMORY_CHANNEL_H_
