#include "outfeed/memory_channel.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/status_macros.h"
#include "outfeed/frame.h"

namespace tutti {
namespace {

// Runs `done` through FinishOnTrampoline(): transfers from inside `done` do not
// deepen the stack.
void Answer(StatusCallback done, absl::Status status) {
  if (done != nullptr) FinishOnTrampoline(std::move(done), std::move(status));
}

// Errors: INVALID_ARGUMENT above kMaxTransferBytes.
absl::StatusOr<int64_t> TotalBytes(absl::Span<const Tensor> arrays) {
  int64_t left = OutfeedChannel::kMaxTransferBytes;
  for (const Tensor& array : arrays) {
    if (array.size_bytes() > static_cast<size_t>(left)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a transfer of ", arrays.size(), " arrays has more than ",
          OutfeedChannel::kMaxTransferBytes, " bytes"));
    }
    left -= static_cast<int64_t>(array.size_bytes());
  }
  return OutfeedChannel::kMaxTransferBytes - left;
}

}  // namespace

MemoryChannel::MemoryChannel(std::string name, const Options& options)
    : name_(std::move(name)),
      options_(options),
      refusal_(absl::FailedPreconditionError(
          absl::StrCat("nobody listens to the outfeed of ", name_))) {}

MemoryChannel::~MemoryChannel() {
  for (Waiting& transfer : waiting_) {
    Answer(std::move(transfer.done),
           absl::CancelledError(
               absl::StrCat("the outfeed of ", name_, " is destroyed")));
  }
}

void MemoryChannel::TransferToOutfeed(absl::Span<Tensor> arrays,
                                      StatusCallback done) {
  const absl::StatusOr<int64_t> num_bytes = TotalBytes(arrays);
  absl::Status status = num_bytes.status();
  if (status.ok() && options_.device != nullptr) {
    return CopyAndTransfer(arrays, *num_bytes, std::move(done));
  }
  ListenerPtr listener;
  if (status.ok()) {
    MutexLock lock(&mu_);
    status = refusal_;
    if (status.ok() && waiting_.empty() && HasRoom(arrays.size(), *num_bytes)) {
      Push(arrays, *num_bytes);
      listener = BeginOffers();
    } else if (status.ok()) {
      waiting_.push_back({.arrays = {std::make_move_iterator(arrays.begin()),
                                     std::make_move_iterator(arrays.end())},
                          .num_bytes = *num_bytes,
                          .done = std::move(done)});
      ++tallies_.waiting_transfers;
      return;
    }
  }
  if (listener != nullptr) Offer(std::move(listener));
  Answer(std::move(done), std::move(status));
}

void MemoryChannel::CopyAndTransfer(absl::Span<Tensor> arrays,
                                    int64_t num_bytes, StatusCallback done) {
  absl::Status status;
  uint64_t copy = 0;
  {
    MutexLock lock(&mu_);
    status = refusal_;
    if (status.ok()) {
      copy = ++last_copy_;
      waiting_.push_back(
          {.num_bytes = num_bytes, .done = std::move(done), .copy = copy});
      ++tallies_.waiting_transfers;
    }
  }
  if (!status.ok()) return Answer(std::move(done), std::move(status));
  options_.device->CopyToHost({std::make_move_iterator(arrays.begin()),
                               std::make_move_iterator(arrays.end())},
                              [self = shared_from_this(), copy](Copies copies) {
                                self->OnCopied(copy, std::move(copies));
                              });
}

void MemoryChannel::OnCopied(uint64_t copy, Copies arrays) {
  absl::Status status = arrays.status();
  std::vector<StatusCallback> admitted;
  StatusCallback failed;
  ListenerPtr listener;
  {
    MutexLock lock(&mu_);
    const auto transfer = std::ranges::find(waiting_, copy, &Waiting::copy);
    if (transfer == waiting_.end()) return;  // The stream has ended.
    transfer->copy = 0;
    if (status.ok()) {
      transfer->arrays = *std::move(arrays);
    } else if (absl::IsResourceExhausted(status) ||
               absl::IsInvalidArgument(status)) {
      failed = std::move(transfer->done);
      waiting_.erase(transfer);
      --tallies_.waiting_transfers;
    } else {
      transfer->failure = OutfeedError(status, name_);
    }
    AdmitWaiting(admitted);
    listener = BeginOffers();
  }
  if (listener != nullptr) Offer(std::move(listener));
  for (StatusCallback& done : admitted) {
    Answer(std::move(done), absl::OkStatus());
  }
  Answer(std::move(failed), OutfeedError(status, name_));
}

absl::Status MemoryChannel::TransferFromOutfeed(ListenerPtr listener) {
  MutexLock lock(&mu_);
  if (listener_ != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("somebody listens to the outfeed of ", name_, " already"));
  }
  listener_ = std::move(listener);
  refusal_ = absl::OkStatus();
  return absl::OkStatus();
}

void MemoryChannel::Resume(const OutfeedListener& listener) {
  ListenerPtr to_offer;
  {
    MutexLock lock(&mu_);
    if (listener_.get() != &listener) return;
    is_paused_ = false;
    is_resumed_ = true;
    to_offer = BeginOffers();
  }
  if (to_offer != nullptr) Offer(std::move(to_offer));
}

void MemoryChannel::Close(const OutfeedListener& listener, Tensor last,
                          absl::Status refusal) {
  const auto num_bytes = static_cast<int64_t>(last.size_bytes());
  ListenerPtr to_offer;
  {
    MutexLock lock(&mu_);
    if (listener_.get() != &listener || !refusal_.ok()) return;
    refusal_ = std::move(refusal);
    if (waiting_.empty()) {
      Push(absl::MakeSpan(&last, 1), num_bytes);
      to_offer = BeginOffers();
    } else {
      waiting_.push_back({.arrays = {std::move(last)}, .num_bytes = num_bytes});
      ++tallies_.waiting_transfers;
    }
  }
  if (to_offer != nullptr) Offer(std::move(to_offer));
}

void MemoryChannel::End(const OutfeedListener& listener, absl::Status status) {
  // Destroyed without the lock: the deleter of a tensor may run the caller's
  // code.
  ListenerPtr ended;
  std::vector<Tensor> dropped, offered;
  std::deque<Waiting> failed;
  {
    MutexLock lock(&mu_);
    if (listener_.get() != &listener) return;
    ended.swap(listener_);
    dropped.swap(queue_);
    if (!is_offering_) {
      offered.swap(offered_);
      offered_begin_ = 0;
    }
    failed.swap(waiting_);
    tallies_ = {};
    is_paused_ = false;
    has_failed_ = false;
    refusal_ = status;
    ++num_streams_;
  }
  for (Waiting& transfer : failed) Answer(std::move(transfer.done), status);
}

OutfeedChannel::Tallies MemoryChannel::tallies() const {
  MutexLock lock(&mu_);
  return tallies_;
}

bool MemoryChannel::HasRoom(size_t num_arrays, int64_t num_bytes) const {
  if (tallies_.queued_arrays == 0) return true;
  return tallies_.queued_arrays + num_arrays <= options_.capacity_arrays &&
         num_bytes <= options_.capacity_bytes - tallies_.queued_bytes;
}

void MemoryChannel::Push(absl::Span<Tensor> arrays, int64_t num_bytes) {
  queue_.insert(queue_.end(), std::make_move_iterator(arrays.begin()),
                std::make_move_iterator(arrays.end()));
  tallies_.queued_arrays += arrays.size();
  tallies_.queued_bytes += num_bytes;
}

void MemoryChannel::AdmitWaiting(std::vector<StatusCallback>& admitted) {
  while (!waiting_.empty() && waiting_.front().copy == 0 &&
         waiting_.front().failure.ok() &&
         HasRoom(waiting_.front().arrays.size(), waiting_.front().num_bytes)) {
    Waiting& transfer = waiting_.front();
    Push(absl::MakeSpan(transfer.arrays), transfer.num_bytes);
    admitted.push_back(std::move(transfer.done));
    waiting_.pop_front();
    --tallies_.waiting_transfers;
  }
}

MemoryChannel::ListenerPtr MemoryChannel::BeginOffers() {
  return is_offering_ ? nullptr : NextOffer();
}

MemoryChannel::ListenerPtr MemoryChannel::NextOffer() {
  if (offered_begin_ == offered_.size()) {
    offered_.clear();  // The listener has moved all tensors out.
    offered_.swap(queue_);
    offered_begin_ = 0;
    offered_bytes_ = tallies_.queued_bytes;
    offered_ends_.clear();
    int64_t end = 0;
    for (const Tensor& array : offered_) {
      end += static_cast<int64_t>(array.size_bytes());
      offered_ends_.push_back(end);
    }
  }
  const bool fails = offered_.empty() && !has_failed_ && !waiting_.empty() &&
                     !waiting_.front().failure.ok();
  is_offering_ =
      listener_ != nullptr && !is_paused_ && (fails || !offered_.empty());
  if (!is_offering_) return nullptr;
  has_failed_ |= fails;
  offered_failure_ = fails ? waiting_.front().failure : absl::OkStatus();
  is_resumed_ = false;
  offered_stream_ = num_streams_;
  return listener_;
}

void MemoryChannel::Offer(ListenerPtr listener) {
  while (listener != nullptr) {
    size_t num_taken = 0;
    if (offered_failure_.ok()) {
      num_taken = listener->TakeArrays(
          absl::MakeSpan(offered_).subspan(offered_begin_));
    } else {
      listener->OnFailed(offered_failure_);
    }
    std::vector<StatusCallback> admitted;
    std::vector<Tensor> dropped;
    listener = EndOffer(num_taken, admitted, dropped);
    for (StatusCallback& done : admitted) {
      Answer(std::move(done), absl::OkStatus());
    }
  }
}

MemoryChannel::ListenerPtr MemoryChannel::EndOffer(
    size_t num_taken, std::vector<StatusCallback>& admitted,
    std::vector<Tensor>& dropped) {
  MutexLock lock(&mu_);
  if (offered_stream_ != num_streams_) {  // The stream ended during the offer.
    dropped.swap(offered_);
    offered_begin_ = 0;
    return NextOffer();
  }
  offered_begin_ += std::min(num_taken, offered_.size() - offered_begin_);
  const int64_t bytes_taken =
      offered_begin_ == 0 ? 0 : offered_ends_[offered_begin_ - 1];
  const int64_t bytes_left =
      offered_ends_.empty() ? 0 : offered_ends_.back() - bytes_taken;
  tallies_.queued_arrays = offered_.size() - offered_begin_ + queue_.size();
  tallies_.queued_bytes -= offered_bytes_ - bytes_left;
  offered_bytes_ = bytes_left;
  is_paused_ = offered_begin_ < offered_.size() && !is_resumed_;
  AdmitWaiting(admitted);
  return NextOffer();
}

absl::StatusOr<std::shared_ptr<OutfeedChannel>> OutfeedChannelOf(
    Device& device) {
  if (auto channel = device.outfeed_channel()) return channel;
  MemoryChannel::Options options;
  if (!device.has_host_memory()) {
    options.device = &device;
    absl::Status copies;
    device.CopyToHost({},
                      [&](const auto& none) { copies.Update(none.status()); });
    RETURN_IF_ERROR(copies);
  } else if (device.attributes().name.type != "CPU") {
    return absl::UnimplementedError(
        absl::StrCat("device ", device.full_name(), " has no outfeed channel"));
  }
  return device.GiveOutfeedChannel(
      std::make_shared<MemoryChannel>(device.full_name(), options));
}

}  // namespace tutti
