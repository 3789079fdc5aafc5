#include "outfeed/remote/remote_channel.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "outfeed/frame.h"
#include "tutti/environment.h"

namespace tutti {

// Listener of the inner channel. Passes on all arrays except its mark, which
// stands for the failure of the stream.
class RemoteChannel::Tap : public OutfeedListener {
 public:
  explicit Tap(std::shared_ptr<OutfeedListener> listener)
      : listener_(std::move(listener)) {}

  size_t TakeArrays(absl::Span<Tensor> arrays) override {
    const bool fails = arrays.back().data() == mark_.data();
    const size_t num_arrays = arrays.size() - (fails ? 1 : 0);
    const size_t num_taken =
        num_arrays == 0 ? 0 : listener_->TakeArrays(arrays.first(num_arrays));
    if (num_taken < num_arrays || !fails) return num_taken;
    arrays.back() = Tensor();
    OnFailed(failure_);
    return arrays.size();
  }
  void OnFailed(absl::Status status) override {
    listener_->OnFailed(std::move(status));
  }

  // Returns the mark. Call once, before the mark goes into the channel.
  Tensor MarkOf(absl::Status failure) {
    failure_ = std::move(failure);
    return *Tensor::Wrap(DType::kUint8, TensorShape::Vector(1), mark_.data());
  }

  const OutfeedListener& listener() const { return *listener_; }

 private:
  const std::shared_ptr<OutfeedListener> listener_;
  std::array<std::byte, 1> mark_ = {};
  absl::Status failure_;
};

RemoteChannel::RemoteChannel(std::string name, std::shared_ptr<StreamLink> link,
                             std::shared_ptr<OutfeedRegistry> registry)
    : name_(std::move(name)),
      link_(std::move(link)),
      inner_(name_, MemoryChannel::Options()),
      reader_(std::move(registry)) {}

// Adds the device's name, unless the sending end has done so.
absl::Status RemoteChannel::Annotated(const absl::Status& status) const {
  if (absl::StrContains(status.message(), name_)) return status;
  return OutfeedError(status, name_);
}

std::shared_ptr<RemoteChannel::Tap> RemoteChannel::TapOf(
    const OutfeedListener& listener) const {
  MutexLock lock(&mu_);
  return tap_ != nullptr && &tap_->listener() == &listener ? tap_ : nullptr;
}

// --- The channel -------------------------------------------------------------

void RemoteChannel::TransferToOutfeed(absl::Span<Tensor> /*arrays*/,
                                      StatusCallback done) {
  if (done == nullptr) return;
  std::move(done)(Annotated(
      absl::UnimplementedError("it is sent to in its device's process alone")));
}

absl::Status RemoteChannel::TransferFromOutfeed(
    std::shared_ptr<OutfeedListener> listener) {
  {
    MutexLock lock(&mu_);
    if (has_listened_) {
      return Annotated(absl::FailedPreconditionError(
          "a connection is for one receiver, and has had it"));
    }
    has_listened_ = true;
    tap_ = std::make_shared<Tap>(std::move(listener));
    RETURN_IF_ERROR(inner_.TransferFromOutfeed(tap_));
  }
  link_->environment().queue->Schedule(
      [self = shared_from_this()] { self->Begin(); });
  return absl::OkStatus();
}

void RemoteChannel::Resume(const OutfeedListener& listener) {
  if (const auto tap = TapOf(listener)) inner_.Resume(*tap);
}

void RemoteChannel::Close(const OutfeedListener& listener, Tensor last,
                          absl::Status refusal) {
  {
    MutexLock lock(&mu_);
    const bool is_listening = tap_ != nullptr && &tap_->listener() == &listener;
    if (!is_listening || last_.is_set()) return;
    last_ = std::move(last);
    refusal_ = std::move(refusal);
  }
  link_->Post(TagOf(StreamTag::kClose, 0), kCloseWord, [](absl::Status) {});
}

void RemoteChannel::End(const OutfeedListener& listener, absl::Status status) {
  std::shared_ptr<Tap> tap;
  {
    MutexLock lock(&mu_);
    if (tap_ == nullptr || &tap_->listener() != &listener) return;
    tap.swap(tap_);
  }
  inner_.End(*tap, status);
  link_->End(std::move(status));
  Advance();
}

// --- Transfers of the link ---------------------------------------------------

void RemoteChannel::Begin() {
  for (uint64_t number = 0; number < kNumSlots; ++number) RequestParcel(number);
  Advance();
}

void RemoteChannel::RequestParcel(uint64_t number) {
  link_->Receive(
      TagOf(StreamTag::kParcel, number),
      absl::MakeSpan(slots_[number % kNumSlots]),
      [self = shared_from_this(), number](const absl::Status& status) {
        self->OnParcel(number, status);
      });
}

// A failed parcel fails through the link.
void RemoteChannel::OnParcel(uint64_t number, const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    slot_states_[number % kNumSlots] =
        status.ok() ? SlotState::kCome : SlotState::kLost;
  }
  Advance();
}

void RemoteChannel::OnLargeArray(size_t num_before,
                                 const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    --num_large_requested_;
    if (!status.ok()) {
      num_before_lost_ =
          std::min(num_before, num_before_lost_.value_or(num_before));
    }
  }
  Advance();
}

void RemoteChannel::OnTransferred(const absl::Status& status) {
  if (!status.ok()) return;  // The listener has ended the stream.
  {
    MutexLock lock(&mu_);
    is_transferring_ = false;
  }
  Advance();
}

// --- Reading -----------------------------------------------------------------

void RemoteChannel::Advance() {
  advance_.Run([this] {
    while (Step()) {
    }
  });
}

bool RemoteChannel::Step() {
  if (state_ == State::kOver || !MayStep()) return false;
  if (is_flushing_) return Flush();
  if (end_word_.has_value()) return EndReading(*end_word_);
  if (deferred_.has_value()) {
    const StreamReader::LargeArray array = *deferred_;
    deferred_.reset();
    return Take(array);
  }
  switch (state_) {
    case State::kNextParcel:
      return BeginParcel();
    case State::kReading:
      return Read();
    case State::kParcelRead:
      return EndParcel();
    case State::kOver:
      break;
  }
  return false;
}

bool RemoteChannel::MayStep() {
  {
    MutexLock lock(&mu_);
    if (!has_listened_) return false;
    if (tap_ != nullptr) return !is_transferring_;
  }
  StopReading();
  return false;
}

bool RemoteChannel::BeginParcel() {
  const size_t slot = parcel_ % kNumSlots;
  SlotState slot_state = SlotState::kAwaited;
  {
    MutexLock lock(&mu_);
    slot_state = std::exchange(slot_states_[slot], SlotState::kAwaited);
  }
  if (slot_state == SlotState::kAwaited) return false;
  if (slot_state == SlotState::kLost) return EndAfterBatch(link_->status());
  reader_.Begin(slots_[slot]);
  state_ = State::kReading;
  return true;
}

bool RemoteChannel::EndParcel() {
  RequestParcel(parcel_ + kNumSlots);
  ++parcel_;
  state_ = State::kNextParcel;
  return true;
}

bool RemoteChannel::Read() {
  const absl::StatusOr<StreamReader::Step> step = reader_.Next();
  if (!step.ok()) return EndAfterBatch(Annotated(step.status()));
  return std::visit([this](const auto& taken) { return Take(taken); }, *step);
}

// Passes the whole items on when all of their arrays have arrived. After the
// end of the link, passes on only items before the first lost array.
bool RemoteChannel::Flush() {
  bool has_lost = false;
  {
    MutexLock lock(&mu_);
    if (num_large_requested_ > 0) return false;
    has_lost = num_before_lost_.has_value();
    if (has_lost) num_whole_ = *num_before_lost_;
    is_transferring_ = num_whole_ > 0;
  }
  const bool has_error = end_word_.has_value() && !end_word_->ok();
  if (has_lost && !has_error) end_word_ = link_->status();
  is_flushing_ = false;
  if (num_whole_ == 0) return true;
  const auto end_of_whole =
      batch_.begin() + static_cast<std::ptrdiff_t>(num_whole_);
  std::vector<Tensor> rest(std::make_move_iterator(end_of_whole),
                           std::make_move_iterator(batch_.end()));
  batch_.resize(num_whole_);
  inner_.TransferToOutfeed(absl::MakeSpan(batch_),
                           [self = shared_from_this()](absl::Status status) {
                             self->OnTransferred(status);
                           });
  batch_ = std::move(rest);
  batch_bytes_ = item_bytes_;
  num_whole_ = 0;
  return true;
}

bool RemoteChannel::Take(const StreamReader::ParcelEnd& /*step*/) {
  state_ = State::kParcelRead;
  is_flushing_ = true;
  return true;
}

bool RemoteChannel::Take(const StreamReader::Header& step) {
  batch_.push_back(step.consumer->header);
  num_item_arrays_left_ = step.consumer->arrays.size();
  if (num_item_arrays_left_ == 0) num_whole_ = batch_.size();
  return true;
}

bool RemoteChannel::Take(const StreamReader::InlineArray& step) {
  absl::StatusOr<Tensor> array =
      CopyOf(step.spec->dtype, step.spec->shape, step.bytes);
  if (!array.ok()) return EndAfterBatch(Annotated(array.status()));
  return AddArray(*std::move(array));
}

bool RemoteChannel::Take(const StreamReader::LargeArray& step) {
  absl::Status link_status = link_->status();
  if (!link_status.ok()) return EndAfterBatch(std::move(link_status));
  const bool is_above = batch_bytes_ > kMaxBatchBytes ||
                        step.num_bytes > kMaxBatchBytes - batch_bytes_;
  if (is_above && num_whole_ > 0) {
    deferred_ = step;
    is_flushing_ = true;
    return true;
  }
  absl::StatusOr<Tensor> array =
      Tensor::Allocate(step.spec->dtype, step.spec->shape);
  if (!array.ok()) return EndAfterBatch(Annotated(array.status()));
  RequestArray(*array);
  return AddArray(*std::move(array));
}

bool RemoteChannel::Take(const StreamReader::End& step) {
  is_senders_end_ = true;
  return EndAfterBatch(step.status);
}

bool RemoteChannel::AddArray(Tensor array) {
  batch_bytes_ += array.size_bytes();
  item_bytes_ += array.size_bytes();
  batch_.push_back(std::move(array));
  if (--num_item_arrays_left_ == 0) {
    num_whole_ = batch_.size();
    item_bytes_ = 0;
  }
  return true;
}

void RemoteChannel::RequestArray(Tensor array) {
  {
    MutexLock lock(&mu_);
    ++num_large_requested_;
  }
  const auto into = absl::MakeSpan(array.mutable_data(), array.size_bytes());
  link_->Receive(
      TagOf(StreamTag::kLargeArray, num_large_arrays_++), into,
      [self = shared_from_this(), num_before = num_whole_,
       array = std::move(array)](const absl::Status& status) mutable {
        array = Tensor();
        self->OnLargeArray(num_before, status);
      });
}

// --- The end -----------------------------------------------------------------

bool RemoteChannel::EndAfterBatch(absl::Status status) {
  end_word_ = std::move(status);
  is_flushing_ = true;
  return true;
}

bool RemoteChannel::EndReading(const absl::Status& status) {
  StopReading();
  if (status.ok()) {
    CloseInner(status);
    link_->End(Annotated(absl::CancelledError("the stream has ended")));
  } else {
    // Both ends report the same status: a parcel's, or the link's end.
    link_->End(status);
    CloseInner(is_senders_end_ ? status : link_->status());
  }
  return false;
}

void RemoteChannel::StopReading() {
  state_ = State::kOver;
  batch_.clear();
}

void RemoteChannel::CloseInner(const absl::Status& status) {
  std::shared_ptr<Tap> tap;
  Tensor last = ShutdownHeader();
  absl::Status refusal = absl::CancelledError("the stream has ended");
  {
    MutexLock lock(&mu_);
    tap = tap_;
    if (last_.is_set()) {
      last = last_;
      refusal = refusal_;
    }
  }
  if (tap == nullptr) return;
  if (status.ok()) {
    inner_.Close(*tap, std::move(last), std::move(refusal));
  } else {
    inner_.Close(*tap, tap->MarkOf(status), status);
  }
}

// --- RemoteOutfeedDevice -----------------------------------------------------

void RemoteOutfeedDevice::Connect(Options options, ConnectCallback done) {
  if (options.registry == nullptr) {
    return std::move(done)(absl::InvalidArgumentError(
        "the receiving end of an outfeed needs a registry"));
  }
  StreamLink::Connect(
      StreamLink::kReceiver, std::move(options.connection),
      [registry = std::move(options.registry), done = std::move(done)](
          absl::StatusOr<std::shared_ptr<StreamLink>> link) mutable {
        if (!link.ok()) return std::move(done)(link.status());
        std::move(done)(std::unique_ptr<RemoteOutfeedDevice>(
            new RemoteOutfeedDevice(*std::move(link), std::move(registry))));
      });
}

RemoteOutfeedDevice::RemoteOutfeedDevice(
    std::shared_ptr<StreamLink> link, std::shared_ptr<OutfeedRegistry> registry)
    : Device(link->device(StreamLink::kSender)), link_(std::move(link)) {
  GiveOutfeedChannel(
      std::make_shared<RemoteChannel>(full_name(), link_, std::move(registry)));
}

RemoteOutfeedDevice::~RemoteOutfeedDevice() {
  link_->End(absl::CancelledError(
      absl::StrCat("outfeed of ", full_name(), ": its receiving end, at ",
                   link_->device(StreamLink::kReceiver).name.ToString(),
                   ", was destroyed")));
}

}  // namespace tutti
