#include "outfeed/device_stream.h"

#include <exception>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "outfeed/frame.h"

namespace tutti {
namespace {

// Callbacks in a row before other works get the thread of the work queue.
constexpr size_t kItemsPerTurn = 256;

// Calls `callback`. Turns an exception into a status.
absl::Status Guarded(const OutfeedCallback& callback, Device& device,
                     uint32_t consumer_id, absl::Span<Tensor> arrays) {
  try {
    return callback(device, consumer_id, arrays);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("it threw: ", error.what()));
  } catch (...) {
    return absl::InternalError("it threw what is no std::exception");
  }
}

}  // namespace

void DeviceStream::Items::clear() {
  consumers.clear();
  arrays.clear();
}

DeviceStream::DeviceStream(Options options, StatusCallback ended)
    : options_(std::move(options)),
      who_(options_.device->full_name()),
      ended_(std::move(ended)) {}

absl::Status DeviceStream::Start() {
  return options_.channel->TransferFromOutfeed(shared_from_this());
}

void DeviceStream::Close() {
  options_.channel->Close(
      *this, ShutdownHeader(),
      OutfeedError(absl::CancelledError("its receiver was shut down"), who_));
}

OutfeedStatistics DeviceStream::statistics() const {
  MutexLock lock(&mu_);
  OutfeedStatistics statistics{.num_items = num_items_.load(),
                               .queued_bytes = queued_bytes_.load(),
                               .blocked_time = blocked_time_,
                               .has_ended = has_finished_};
  if (end_.has_value()) statistics.status = *end_;
  if (paused_since_.has_value()) {
    statistics.blocked_time +=
        options_.environment.clock->Now() - *paused_since_;
  }
  return statistics;
}

// --- Reading -----------------------------------------------------------------

size_t DeviceStream::TakeArrays(absl::Span<Tensor> arrays) {
  size_t num_taken = 0;
  bool begins = false;
  std::optional<absl::Status> end;
  Dropped dropped;
  {
    MutexLock lock(&mu_);
    if (end_.has_value()) return 0;  // End() of the channel is about to run.
    while (num_taken < arrays.size() && TakeArray(arrays[num_taken])) {
      ++num_taken;
    }
    end = end_;
    if (end.has_value()) DropUnread(dropped);
    begins = !queue_.empty() && !is_running_;
    is_running_ |= begins;
  }
  // Destroys the taken headers here, with no lock held: the deleter of a
  // wrapped header may send again.
  for (Tensor& taken : arrays.first(num_taken)) taken = Tensor();
  if (begins) ScheduleCallbacks();
  if (end.has_value()) {
    Release(dropped.num_bytes);
    dropped.arrays.clear();
    EndChannel(*end);
  }
  return num_taken;
}

void DeviceStream::OnFailed(absl::Status status) {
  Dropped dropped;
  {
    MutexLock lock(&mu_);
    if (end_.has_value()) return;  // End() of the channel is about to run.
    end_ = status;
    DropUnread(dropped);
  }
  Release(dropped.num_bytes);
  dropped.arrays.clear();
  EndChannel(status);
}

bool DeviceStream::TakeArray(Tensor& array) {
  if (end_.has_value()) return false;
  return consumer_ == nullptr ? TakeHeader(array) : TakePayload(array);
}

bool DeviceStream::TakeHeader(const Tensor& header) {
  const absl::StatusOr<uint32_t> id = ReadHeader(header);
  if (!id.ok()) return FailReading(id.status());
  if (*id == kShutdownConsumerId) {
    end_ = absl::OkStatus();
    return true;
  }
  if (last_consumer_ == nullptr || last_consumer_->id != *id) {
    const auto consumer = options_.registry->Find(*id);
    if (!consumer.ok()) return FailReading(consumer.status());
    last_consumer_ = *consumer;
  }
  return BeginItem(*last_consumer_);
}

bool DeviceStream::BeginItem(const OutfeedConsumer& consumer) {
  if (!HasRoom(consumer)) return false;
  consumer_ = &consumer;
  EndItemIfComplete();
  return true;
}

bool DeviceStream::HasRoom(const OutfeedConsumer& consumer) {
  if (room_ == Room::kAwaited) return false;
  if (queue_.consumers.size() >= kMaxQueuedItems) {
    is_full_ = true;
    BeginPause();
    return false;
  }
  if (room_ == Room::kUnknown) {
    const int64_t num_bytes = consumer.payload_bytes;
    if (!options_.budget->TryTake(num_bytes) &&
        !options_.budget->TakeOrWait(num_bytes, shared_from_this())) {
      room_ = Room::kAwaited;
      wanted_bytes_ = num_bytes;
      BeginPause();
      return false;
    }
    queued_bytes_ += num_bytes;
  }
  room_ = Room::kUnknown;
  return true;
}

bool DeviceStream::TakePayload(Tensor& array) {
  const absl::Status status = CheckPayload(*consumer_, read_.size(), array);
  if (!status.ok()) return FailReading(status);
  read_.push_back(std::move(array));
  EndItemIfComplete();
  return true;
}

void DeviceStream::EndItemIfComplete() {
  if (read_.size() < consumer_->arrays.size()) return;
  queue_.consumers.push_back(consumer_);
  queue_.arrays.insert(queue_.arrays.end(),
                       std::make_move_iterator(read_.begin()),
                       std::make_move_iterator(read_.end()));
  read_.clear();
  consumer_ = nullptr;
}

bool DeviceStream::FailReading(const absl::Status& status) {
  end_ = OutfeedError(status, who_);
  return false;
}

void DeviceStream::DropUnread(Dropped& dropped) {
  if (consumer_ != nullptr) dropped.num_bytes += consumer_->payload_bytes;
  if (room_ == Room::kGranted) dropped.num_bytes += wanted_bytes_;
  consumer_ = nullptr;
  room_ = Room::kUnknown;
  dropped.arrays.swap(read_);
  EndPause();
}

void DeviceStream::BeginPause() {
  if (!paused_since_.has_value()) {
    paused_since_ = options_.environment.clock->Now();
  }
}

void DeviceStream::EndPause() {
  if (!paused_since_.has_value()) return;
  blocked_time_ += options_.environment.clock->Now() - *paused_since_;
  paused_since_.reset();
}

void DeviceStream::OnGranted() {
  bool is_needed = false;
  int64_t num_bytes = 0;
  {
    MutexLock lock(&mu_);
    is_needed = !end_.has_value();
    num_bytes = wanted_bytes_;
    queued_bytes_ += num_bytes;
    room_ = is_needed ? Room::kGranted : Room::kUnknown;
    EndPause();
  }
  if (is_needed) {
    options_.channel->Resume(*this);
  } else {
    Release(num_bytes);
  }
}

// --- Calling back ------------------------------------------------------------

void DeviceStream::ScheduleCallbacks() {
  options_.environment.queue->Schedule(
      [self = shared_from_this()] { self->RunCallbacks(); });
}

void DeviceStream::RunCallbacks() {
  absl::Status status;
  for (size_t i = 0; i < kItemsPerTurn && status.ok(); ++i) {
    if (next_item_ == batch_.consumers.size()) TakeBatch();
    if (batch_.empty()) break;
    status = CallNext();
  }
  if (!status.ok()) FailCallback(std::move(status));
  EndTurn();
}

void DeviceStream::TakeBatch() {
  batch_.clear();
  next_item_ = 0;
  next_array_ = 0;
  bool was_full = false;
  {
    MutexLock lock(&mu_);
    std::swap(batch_, queue_);
    std::swap(was_full, is_full_);
    if (was_full) EndPause();
  }
  if (was_full) options_.channel->Resume(*this);
}

absl::Status DeviceStream::CallNext() {
  const OutfeedConsumer& consumer = *batch_.consumers[next_item_++];
  const absl::Span<Tensor> arrays =
      absl::MakeSpan(batch_.arrays)
          .subspan(next_array_, consumer.arrays.size());
  next_array_ += arrays.size();
  absl::Status status =
      Guarded(*options_.callback, *options_.device, consumer.id, arrays);
  for (Tensor& array : arrays) array = Tensor();
  Release(consumer.payload_bytes);
  if (status.ok()) {
    ++num_items_;
    return status;
  }
  return OutfeedError(
      absl::Status(status.code(),
                   absl::StrCat("the callback failed for an item "
                                "of consumer id ",
                                consumer.id, ": ", status.message())),
      who_);
}

void DeviceStream::FailCallback(absl::Status status) {
  Dropped dropped;
  bool is_waiting = false;
  {
    MutexLock lock(&mu_);
    is_waiting = room_ == Room::kAwaited;
    if (!end_.has_value() || end_->ok()) end_ = status;
    status = *end_;
    DropUnread(dropped);
    std::swap(dropped.items, queue_);
    is_full_ = false;
  }
  if (is_waiting) options_.budget->StopWaiting(*this);
  for (const OutfeedConsumer* consumer : dropped.items.consumers) {
    dropped.num_bytes += consumer->payload_bytes;
  }
  for (; next_item_ < batch_.consumers.size(); ++next_item_) {
    dropped.num_bytes += batch_.consumers[next_item_]->payload_bytes;
  }
  batch_.clear();
  next_item_ = 0;
  Release(dropped.num_bytes);
  EndChannel(status);
}

void DeviceStream::EndTurn() {
  bool goes_on = false;
  {
    MutexLock lock(&mu_);
    goes_on = next_item_ < batch_.consumers.size() || !queue_.empty();
    is_running_ = goes_on;
  }
  if (goes_on) {
    ScheduleCallbacks();
  } else {
    FinishIfDone();
  }
}

// --- The end -----------------------------------------------------------------

void DeviceStream::Release(int64_t num_bytes) {
  queued_bytes_ -= num_bytes;
  options_.budget->Release(num_bytes);
}

void DeviceStream::EndChannel(const absl::Status& status) {
  options_.channel->End(
      *this,
      !status.ok()
          ? status
          : OutfeedError(absl::CancelledError("its receiver was shut down"),
                         who_));
  {
    MutexLock lock(&mu_);
    has_left_channel_ = true;
  }
  FinishIfDone();
}

void DeviceStream::FinishIfDone() {
  StatusCallback ended;
  absl::Status status;
  {
    MutexLock lock(&mu_);
    if (!has_left_channel_ || is_running_ || has_finished_) return;
    has_finished_ = true;
    status = *end_;
    ended = std::move(ended_);
  }
  std::move(ended)(std::move(status));
}

}  // namespace tutti
