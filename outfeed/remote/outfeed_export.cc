#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "outfeed/frame.h"
#include "outfeed/memory_channel.h"
#include "outfeed/parcel.h"
#include "outfeed/remote/stream_link.h"
#include "tutti/device.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// A parcel that is not full is posted if fewer than this many parcels are.
constexpr int kEagerParcels = 2;

}  // namespace

// Lives until the link has ended and all posted bytes are released.
class OutfeedExport::Core : public OutfeedListener,
                            public std::enable_shared_from_this<Core> {
 public:
  Core(std::shared_ptr<OutfeedChannel> channel,
       std::shared_ptr<const OutfeedRegistry> registry,
       std::shared_ptr<StreamLink> link, StatusCallback ended)
      : channel_(std::move(channel)),
        registry_(std::move(registry)),
        link_(std::move(link)),
        who_(link_->device(StreamLink::kSender).name.ToString()),
        ended_(std::move(ended)) {}

  // Errors: FAILED_PRECONDITION if the channel has a listener.
  absl::Status Start();
  void Stop();

  size_t TakeArrays(absl::Span<Tensor> arrays) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnFailed(absl::Status status) override { link_->End(std::move(status)); }

 private:
  using Loan = ParcelPacker::Loan;

  absl::Status Annotated(const absl::Status& status) const {
    return OutfeedError(status, who_);
  }
  absl::Status Refusal() const {
    return Annotated(absl::CancelledError("its receiver was shut down"));
  }

  // Halves of TakeArrays(). After an end, EndTaking() frees all arrays before
  // `ended` may run.
  size_t Read(absl::Span<Tensor> arrays) ABSL_LOCKS_EXCLUDED(mu_);
  void EndTaking(absl::Span<Tensor> arrays) ABSL_LOCKS_EXCLUDED(mu_);

  // Reading. Functions with a result return false if they leave the array.
  bool TakeArray(Tensor& array) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TakeHeader(const Tensor& header) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool TakePayload(Tensor& array) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasRoom(const OutfeedConsumer& consumer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool PackIfComplete() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool EndReading(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Posting.
  void PostAll() ABSL_LOCKS_EXCLUDED(mu_);
  std::vector<Loan> NextLoans() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Post(Loan loan);
  void OnReleased(StreamTag kind, int64_t cost_bytes,
                  const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  void OnCloseWord(const absl::Status& status);
  void OnLinkEnded(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void FinishIfDone() ABSL_LOCKS_EXCLUDED(mu_);

  const std::shared_ptr<OutfeedChannel> channel_;
  const std::shared_ptr<const OutfeedRegistry> registry_;
  const std::shared_ptr<StreamLink> link_;
  const std::string who_;

  // Destination of the close word. The link writes it until the request ends.
  std::array<std::byte, kCloseWord.size()> close_word_ = {};

  Mutex mu_;
  StatusCallback ended_ ABSL_GUARDED_BY(mu_);

  // Set when reading ends: OK after an orderly end.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);

  // Item that is being read.
  const OutfeedConsumer* consumer_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::vector<Tensor> read_ ABSL_GUARDED_BY(mu_);
  std::vector<Tensor> copied_ ABSL_GUARDED_BY(mu_);  // Freed by EndTaking().

  ParcelPacker packer_ ABSL_GUARDED_BY(mu_);
  int64_t window_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // Bytes in use.
  bool is_taking_ ABSL_GUARDED_BY(mu_) = false;  // A thread is in TakeArrays().
  bool is_paused_ ABSL_GUARDED_BY(mu_) = false;
  bool is_posting_ ABSL_GUARDED_BY(mu_) = false;
  int num_parcels_loaned_ ABSL_GUARDED_BY(mu_) = 0;
  int num_loans_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status loan_error_ ABSL_GUARDED_BY(mu_);
  bool has_left_ ABSL_GUARDED_BY(mu_) = false;  // Left link and channel.
};

absl::Status OutfeedExport::Core::Start() {
  absl::Status status = channel_->TransferFromOutfeed(shared_from_this());
  if (!status.ok()) {
    link_->End(status);
    return status;
  }
  link_->WatchEnd([self = shared_from_this()](const absl::Status& status) {
    self->OnLinkEnded(status);
  });
  link_->Receive(TagOf(StreamTag::kClose, 0), absl::MakeSpan(close_word_),
                 [self = shared_from_this()](const absl::Status& status) {
                   self->OnCloseWord(status);
                 });
  return absl::OkStatus();
}

void OutfeedExport::Core::Stop() {
  link_->End(Annotated(absl::CancelledError("its sending end was destroyed")));
}

// --- Reading -----------------------------------------------------------------

size_t OutfeedExport::Core::TakeArrays(absl::Span<Tensor> arrays) {
  const size_t num_taken = Read(arrays);
  EndTaking(arrays);
  return num_taken;
}

size_t OutfeedExport::Core::Read(absl::Span<Tensor> arrays) {
  size_t num_taken = 0;
  std::optional<absl::Status> end;
  absl::Status error;
  std::vector<Tensor> dropped;
  {
    MutexLock lock(&mu_);
    is_taking_ = true;
    if (end_.has_value()) return 0;  // End() of the channel is about to run.
    while (num_taken < arrays.size() && TakeArray(arrays[num_taken])) {
      ++num_taken;
    }
    end = end_;
    error = loan_error_;
    dropped.swap(copied_);
  }
  for (Tensor& taken : arrays.first(num_taken)) taken = Tensor();
  dropped.clear();
  PostAll();
  if (end.has_value() && !error.ok()) link_->End(error);
  if (end.has_value()) channel_->End(*this, end->ok() ? Refusal() : *end);
  return num_taken;
}

void OutfeedExport::Core::EndTaking(absl::Span<Tensor> arrays) {
  {
    MutexLock lock(&mu_);
    is_taking_ = end_.has_value();
    if (!is_taking_) return;
  }
  for (Tensor& array : arrays) array = Tensor();
  {
    MutexLock lock(&mu_);
    is_taking_ = false;
  }
  FinishIfDone();
}

bool OutfeedExport::Core::TakeArray(Tensor& array) {
  if (end_.has_value()) return false;
  return consumer_ == nullptr ? TakeHeader(array) : TakePayload(array);
}

bool OutfeedExport::Core::TakeHeader(const Tensor& header) {
  const absl::StatusOr<uint32_t> id = ReadHeader(header);
  if (!id.ok()) return EndReading(Annotated(id.status()));
  if (*id == kShutdownConsumerId) {
    EndReading(absl::OkStatus());
    return true;
  }
  const auto consumer = registry_->Find(*id);
  if (!consumer.ok()) return EndReading(Annotated(consumer.status()));
  if (!HasRoom(**consumer)) return false;
  consumer_ = *consumer;
  return PackIfComplete();
}

bool OutfeedExport::Core::HasRoom(const OutfeedConsumer& consumer) {
  const int64_t cost_bytes = ParcelPacker::CostOf(consumer);
  is_paused_ = window_bytes_ > 0 && cost_bytes > kWindowBytes - window_bytes_;
  if (is_paused_) return false;
  window_bytes_ += cost_bytes;
  return true;
}

bool OutfeedExport::Core::TakePayload(Tensor& array) {
  const absl::Status status = CheckPayload(*consumer_, read_.size(), array);
  if (!status.ok()) return EndReading(Annotated(status));
  read_.push_back(std::move(array));
  return PackIfComplete();
}

bool OutfeedExport::Core::PackIfComplete() {
  if (read_.size() < consumer_->arrays.size()) return true;
  const OutfeedConsumer& consumer = *std::exchange(consumer_, nullptr);
  const absl::Status status = packer_.AddItem(consumer, absl::MakeSpan(read_));
  copied_.insert(copied_.end(), std::make_move_iterator(read_.begin()),
                 std::make_move_iterator(read_.end()));
  read_.clear();
  if (!status.ok()) EndReading(Annotated(status));
  return true;
}

// Ends reading. Earlier items still go to the other end, which then ends the
// link.
bool OutfeedExport::Core::EndReading(absl::Status status) {
  end_ = status;
  consumer_ = nullptr;
  copied_.insert(copied_.end(), std::make_move_iterator(read_.begin()),
                 std::make_move_iterator(read_.end()));
  read_.clear();
  loan_error_ = packer_.AddEnd(std::move(status));
  return false;
}

// --- Posting -----------------------------------------------------------------

// Posts on one thread at a time: a release inside a post does not deepen the
// stack.
void OutfeedExport::Core::PostAll() {
  for (;;) {
    std::vector<Loan> loans;
    {
      MutexLock lock(&mu_);
      if (is_posting_) return;
      loans = NextLoans();
      if (loans.empty()) return;
      is_posting_ = true;
    }
    for (Loan& loan : loans) Post(std::move(loan));
    MutexLock lock(&mu_);
    is_posting_ = false;
  }
}

std::vector<ParcelPacker::Loan> OutfeedExport::Core::NextLoans() {
  if (packer_.has_open() && num_parcels_loaned_ < kEagerParcels) {
    packer_.CloseOpen();
  }
  std::vector<Loan> loans = packer_.TakeLoans();
  num_loans_ += static_cast<int>(loans.size());
  for (const Loan& loan : loans) {
    if (loan.kind == StreamTag::kParcel) ++num_parcels_loaned_;
  }
  return loans;
}

void OutfeedExport::Core::Post(Loan loan) {
  const int32_t tag = TagOf(loan.kind, loan.number);
  const absl::Span<const std::byte> bytes(loan.bytes.data(),
                                          loan.bytes.size_bytes());
  link_->Post(tag, bytes,
              [self = shared_from_this(),
               loan = std::move(loan)](const absl::Status& status) mutable {
                loan.bytes = Tensor();
                self->OnReleased(loan.kind, loan.cost_bytes, status);
              });
}

void OutfeedExport::Core::OnReleased(StreamTag kind, int64_t cost_bytes,
                                     const absl::Status& status) {
  bool is_resumed = false;
  {
    MutexLock lock(&mu_);
    --num_loans_;
    if (kind == StreamTag::kParcel) --num_parcels_loaned_;
    window_bytes_ -= cost_bytes;
    if (!status.ok()) loan_error_ = status;
    is_resumed = status.ok() && std::exchange(is_paused_, false);
  }
  if (status.ok()) PostAll();
  if (is_resumed) channel_->Resume(*this);
  FinishIfDone();
}

// --- The end -----------------------------------------------------------------

void OutfeedExport::Core::OnCloseWord(const absl::Status& status) {
  if (!status.ok()) return;  // OnLinkEnded() runs, too.
  if (close_word_ != kCloseWord) {
    return link_->End(Annotated(
        absl::InternalError("its receiving end asks for what is no question")));
  }
  channel_->Close(*this, ShutdownHeader(), Refusal());
}

void OutfeedExport::Core::OnLinkEnded(absl::Status status) {
  std::vector<Tensor> dropped;
  std::vector<Loan> loans;
  {
    MutexLock lock(&mu_);
    if (!end_.has_value()) {
      end_ = status;
    } else if (end_->ok() && packer_.has_loans()) {
      loan_error_ = status;
    }
    consumer_ = nullptr;
    dropped.swap(read_);
    loans = packer_.TakeLoans();
  }
  channel_->End(*this, std::move(status));
  dropped.clear();  // Freed before `ended` may run.
  loans.clear();
  {
    MutexLock lock(&mu_);
    has_left_ = true;
  }
  FinishIfDone();
}

void OutfeedExport::Core::FinishIfDone() {
  StatusCallback ended;
  absl::Status status;
  {
    MutexLock lock(&mu_);
    if (!has_left_ || is_taking_ || num_loans_ > 0) return;
    status = end_->ok() ? loan_error_ : *end_;
    ended = std::exchange(ended_, nullptr);
  }
  if (ended != nullptr) std::move(ended)(std::move(status));
}

// --- OutfeedExport -----------------------------------------------------------

void OutfeedExport::Connect(Options options, ConnectCallback done) {
  if (options.registry == nullptr || options.connection.device == nullptr) {
    return std::move(done)(absl::InvalidArgumentError(
        "the sending end of an outfeed needs a device and a registry"));
  }
  auto channel = OutfeedChannelOf(*options.connection.device);
  if (!channel.ok()) return std::move(done)(channel.status());
  StreamLink::Connect(
      StreamLink::kSender, std::move(options.connection),
      [channel = *std::move(channel), registry = std::move(options.registry),
       ended = std::move(options.ended), done = std::move(done)](
          absl::StatusOr<std::shared_ptr<StreamLink>> link) mutable {
        if (!link.ok()) return std::move(done)(link.status());
        const auto core =
            std::make_shared<Core>(std::move(channel), std::move(registry),
                                   *std::move(link), std::move(ended));
        absl::Status status = core->Start();
        if (!status.ok()) return std::move(done)(std::move(status));
        std::move(done)(
            std::unique_ptr<OutfeedExport>(new OutfeedExport(core)));
      });
}

OutfeedExport::OutfeedExport(std::shared_ptr<Core> core)
    : core_(std::move(core)) {}

OutfeedExport::~OutfeedExport() { core_->Stop(); }

}  // namespace tutti
