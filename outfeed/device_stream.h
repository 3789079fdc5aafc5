#ifndef TUTTI_OUTFEED_DEVICE_STREAM_H_
#define TUTTI_OUTFEED_DEVICE_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "outfeed/byte_budget.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {

// Stream from a device to a receiver. Reads the device's channel, queues the
// items within the budget, and runs their callbacks one after the other.
// Callbacks are works of the environment's queue.
//
// Threads that transfer read the channel, and queue each item at once. A work
// runs callbacks as long as there are items.
//
// Thread-safe. The channel, the budget and the work queue keep the stream alive
// as long as they need it.
class DeviceStream : public OutfeedListener,
                     public ByteBudget::Waiter,
                     public std::enable_shared_from_this<DeviceStream> {
 public:
  struct Options {
    Device* device = nullptr;  // Outlives the stream's end.
    std::shared_ptr<OutfeedChannel> channel;
    std::shared_ptr<const OutfeedRegistry> registry;
    std::shared_ptr<ByteBudget> budget;
    std::shared_ptr<const OutfeedCallback> callback;
    Environment environment;
  };

  // Most items that wait for their callback. The batch that callbacks have
  // begun may hold as many more. Needed because items without bytes use memory,
  // too.
  static constexpr size_t kMaxQueuedItems = 16384;

  // `ended` runs once with the stream's status, after the last callback, when
  // the channel is free for another listener.
  // Make a shared object.
  DeviceStream(Options options, StatusCallback ended);

  // Call once. Errors: FAILED_PRECONDITION if the channel has a listener;
  // `ended` does not run then.
  absl::Status Start();

  // Sends the header that ends the stream. REQUIRES: Start() was called.
  void Close();

  OutfeedStatistics statistics() const ABSL_LOCKS_EXCLUDED(mu_);

  size_t TakeArrays(absl::Span<Tensor> arrays) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnFailed(absl::Status status) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnGranted() override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Consecutive items: their consumers, and the arrays of all of them.
  struct Items {
    std::vector<const OutfeedConsumer*> consumers;
    std::vector<Tensor> arrays;

    bool empty() const { return consumers.empty(); }
    void clear();
  };
  // Items and arrays that are not delivered.
  struct Dropped {
    Items items;
    std::vector<Tensor> arrays;
    int64_t num_bytes = 0;
  };

  // Reading. Functions with a result return false if they leave the array.
  bool TakeArray(Tensor& array) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TakeHeader(const Tensor& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool BeginItem(const OutfeedConsumer& consumer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasRoom(const OutfeedConsumer& consumer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TakePayload(Tensor& array) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndItemIfComplete() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool FailReading(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropUnread(Dropped& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void BeginPause() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndPause() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Calling back.
  void RunCallbacks() ABSL_LOCKS_EXCLUDED(mu_);
  void TakeBatch() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status CallNext();
  void FailCallback(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void EndTurn() ABSL_LOCKS_EXCLUDED(mu_);
  void ScheduleCallbacks();

  void Release(int64_t num_bytes);
  void EndChannel(const absl::Status& status);
  void FinishIfDone() ABSL_LOCKS_EXCLUDED(mu_);

  const Options options_;
  const std::string who_;  // The device's name; used after its end, too.
  std::atomic<uint64_t> num_items_{0};
  std::atomic<int64_t> queued_bytes_{0};

  mutable Mutex mu_;
  StatusCallback ended_ ABSL_GUARDED_BY(mu_);
  bool has_left_channel_ ABSL_GUARDED_BY(mu_) = false;
  bool has_finished_ ABSL_GUARDED_BY(mu_) = false;

  // Set when reading ends: OK after the shutdown header.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);

  // Item that is being read.
  const OutfeedConsumer* consumer_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::vector<Tensor> read_ ABSL_GUARDED_BY(mu_);
  const OutfeedConsumer* last_consumer_ ABSL_GUARDED_BY(mu_) = nullptr;

  // Room for the item whose header comes next.
  enum class Room { kUnknown, kAwaited, kGranted };
  Room room_ ABSL_GUARDED_BY(mu_) = Room::kUnknown;
  int64_t wanted_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_full_ ABSL_GUARDED_BY(mu_) = false;  // kMaxQueuedItems are queued.
  std::optional<absl::Time> paused_since_ ABSL_GUARDED_BY(mu_);
  absl::Duration blocked_time_ ABSL_GUARDED_BY(mu_);

  Items queue_ ABSL_GUARDED_BY(mu_);
  bool is_running_ ABSL_GUARDED_BY(mu_) = false;  // A work runs or is due.

  // Owned by the running work.
  Items batch_;
  size_t next_item_ = 0;
  size_t next_array_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_DEVICE_STREAM_H_
