#ifndef TUTTI_OUTFEED_REMOTE_REMOTE_CHANNEL_H_
#define TUTTI_OUTFEED_REMOTE_REMOTE_CHANNEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/callbacks.h"
#include "framework/base/mutex.h"
#include "outfeed/memory_channel.h"
#include "outfeed/parcel.h"
#include "outfeed/remote/stream_link.h"
#include "outfeed/stream_reader.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {

// Channel of a RemoteOutfeedDevice. Requests the transfers of the sending end,
// and writes the items into a MemoryChannel for the listener. Accepts one
// listener; TransferToOutfeed() fails with UNIMPLEMENTED.
//
// Thread-safe. The listener runs on threads of the link or of the work queue,
// or inside Resume().
class RemoteChannel : public OutfeedChannel,
                      public std::enable_shared_from_this<RemoteChannel> {
 public:
  // `name` is the name of the sending device. Make a shared object.
  RemoteChannel(std::string name, std::shared_ptr<StreamLink> link,
                std::shared_ptr<OutfeedRegistry> registry);

  void TransferToOutfeed(absl::Span<Tensor> arrays,
                         StatusCallback done) override;
  absl::Status TransferFromOutfeed(std::shared_ptr<OutfeedListener> listener)
      override ABSL_LOCKS_EXCLUDED(mu_);
  void Resume(const OutfeedListener& listener) override;
  void Close(const OutfeedListener& listener, Tensor last,
             absl::Status refusal) override ABSL_LOCKS_EXCLUDED(mu_);
  void End(const OutfeedListener& listener, absl::Status status) override
      ABSL_LOCKS_EXCLUDED(mu_);
  Tallies tallies() const override { return inner_.tallies(); }

 private:
  class Tap;

  // Number of parcels requested at a time.
  static constexpr size_t kNumSlots = 8;

  // Bound on the bytes of large arrays and of the items that wait for them. A
  // single item may exceed it.
  static constexpr size_t kMaxBatchBytes = size_t{1} << 20;

  absl::Status Annotated(const absl::Status& status) const;
  std::shared_ptr<Tap> TapOf(const OutfeedListener& listener) const
      ABSL_LOCKS_EXCLUDED(mu_);

  void Begin();
  void RequestParcel(uint64_t number);
  void OnParcel(uint64_t number, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnLargeArray(size_t num_before, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnTransferred(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  // Takes all steps that are possible now. Every event calls it. One thread at
  // a time runs the steps, until a step returns false: nothing can be done now.
  // After the end of the link, steps go on until they need data that never
  // arrived.
  void Advance() ABSL_LOCKS_EXCLUDED(mu_);
  bool Step();
  bool MayStep() ABSL_LOCKS_EXCLUDED(mu_);
  bool BeginParcel() ABSL_LOCKS_EXCLUDED(mu_);
  bool EndParcel();
  bool Read();
  bool Flush() ABSL_LOCKS_EXCLUDED(mu_);
  bool Take(const StreamReader::ParcelEnd& step);
  bool Take(const StreamReader::Header& step);
  bool Take(const StreamReader::InlineArray& step);
  bool Take(const StreamReader::LargeArray& step);
  bool Take(const StreamReader::End& step);
  bool AddArray(Tensor array);
  void RequestArray(Tensor array) ABSL_LOCKS_EXCLUDED(mu_);

  // Stop reading. The end, or the error, goes to the inner channel after all
  // earlier items.
  bool EndAfterBatch(absl::Status status);
  bool EndReading(const absl::Status& status);
  void StopReading();
  void CloseInner(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  const std::string name_;
  const std::shared_ptr<StreamLink> link_;
  MemoryChannel inner_;

  // Destinations of requested parcels. The link writes a slot until its parcel
  // has arrived.
  std::array<std::array<std::byte, kParcelBytes>, kNumSlots> slots_;

  mutable Mutex mu_;
  bool has_listened_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<Tap> tap_ ABSL_GUARDED_BY(mu_);  // Null after End().
  Tensor last_ ABSL_GUARDED_BY(mu_);               // Set by Close().
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);
  enum class SlotState { kAwaited, kCome, kLost };
  std::array<SlotState, kNumSlots> slot_states_ ABSL_GUARDED_BY(mu_) = {};
  bool is_transferring_ ABSL_GUARDED_BY(mu_) = false;
  int num_large_requested_ ABSL_GUARDED_BY(mu_) = 0;

  // Set when a large array was lost: the number of arrays in `batch_` that
  // belong to whole items before the first lost array.
  std::optional<size_t> num_before_lost_ ABSL_GUARDED_BY(mu_);

  RunAgain advance_;

  // Owned by the stepping thread.
  StreamReader reader_;
  enum class State { kNextParcel, kReading, kParcelRead, kOver };
  State state_ = State::kNextParcel;
  uint64_t parcel_ = 0;              // Number of the present or next parcel.
  uint64_t num_large_arrays_ = 0;    // Large arrays requested.
  std::vector<Tensor> batch_;        // Whole items, then a partial item.
  size_t num_whole_ = 0;             // Arrays of whole items in `batch_`.
  size_t num_item_arrays_left_ = 0;  // Missing in the partial item.
  size_t batch_bytes_ = 0;
  size_t item_bytes_ = 0;  // Bytes of the partial item.
  bool is_flushing_ = false;
  std::optional<StreamReader::LargeArray> deferred_;
  std::optional<absl::Status> end_word_;
  bool is_senders_end_ = false;  // The end came in a parcel.
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_REMOTE_REMOTE_CHANNEL_H_
