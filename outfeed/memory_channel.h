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

// Channel of arrays in host memory, which are passed by reference. An array
// that the listener takes at once never queues. A transfer takes one lock
// twice, shortly, and allocates nothing unless it waits.
//
// Transfers of a device with a memory of its own wait in their place until they
// are copied. A copy that fails for lack of memory, or for a wrong array, fails
// its transfer alone. Another error is the device's loss: the listener gets it
// (OnFailed()) after all earlier arrays.
class MemoryChannel : public OutfeedChannel,
                      public std::enable_shared_from_this<MemoryChannel> {
 public:
  struct Options {
    // Bounds on the arrays that the listener has not taken. A transfer of any
    // size is accepted into an empty channel.
    int64_t capacity_bytes = int64_t{1} << 20;
    size_t capacity_arrays = 1024;

    // Copies the arrays to host memory; outlives all calls of the transfers.
    // Make a shared object then. Null: the arrays are there.
    Device* device = nullptr;
  };

  // `name` stands for the channel in its errors.
  MemoryChannel(std::string name, const Options& options);

  // Fails waiting transfers with CANCELLED.
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
    uint64_t copy = 0;     // Number of the copy under way; 0: none.
    absl::Status failure;  // Of the device.
  };
  using Copies = absl::StatusOr<std::vector<Tensor>>;

  void CopyAndTransfer(absl::Span<Tensor> arrays, int64_t num_bytes,
                       StatusCallback done) ABSL_LOCKS_EXCLUDED(mu_);
  void OnCopied(uint64_t copy, Copies arrays) ABSL_LOCKS_EXCLUDED(mu_);
  bool HasRoom(size_t num_arrays, int64_t num_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Push(absl::Span<Tensor> arrays, int64_t num_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AdmitWaiting(std::vector<StatusCallback>& admitted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Offering: one thread at a time offers the queued arrays to the listener. It
  // calls BeginOffers() under the lock, and passes the result to Offer().
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
  Tallies tallies_ ABSL_GUARDED_BY(mu_);  // Arrays in `queue_` and `offered_`.
  uint64_t num_streams_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_copy_ ABSL_GUARDED_BY(mu_) = 0;
  bool has_failed_ ABSL_GUARDED_BY(mu_) = false;  // OnFailed() was called.

  bool is_offering_ ABSL_GUARDED_BY(mu_) = false;
  bool is_paused_ ABSL_GUARDED_BY(mu_) = false;
  bool is_resumed_ ABSL_GUARDED_BY(mu_) = false;  // Resumed during an offer.

  // Owned by the offering thread; guarded by `mu_` while no thread offers.
  std::vector<Tensor> offered_;
  size_t offered_begin_ = 0;           // Index of the first array not taken.
  int64_t offered_bytes_ = 0;          // Bytes not taken.
  std::vector<int64_t> offered_ends_;  // Cumulative bytes of the arrays.
  uint64_t offered_stream_ = 0;        // num_streams_ at the offer.
  absl::Status offered_failure_;       // Offered in place of arrays if not OK.
};

// Returns the device's channel. Gives a CPU device without a channel, or one
// that copies to the host, a MemoryChannel. Errors: UNIMPLEMENTED for another
// device without a channel.
absl::StatusOr<std::shared_ptr<OutfeedChannel>> OutfeedChannelOf(
    Device& device);

}  // namespace tutti

#endif  // TUTTI_OUTFEED_MEMORY_CHANNEL_H_
