#include "remote/grpc/transfers/send_stream.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/peer_status.h"
#include "framework/base/status_macros.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/connection/connection_gate.h"
#include "remote/grpc/wire/slice_cursor.h"
#include "remote/grpc/wire/status_codec.h"

namespace tutti {
namespace {

// Largest payload that is copied next to its header: cheaper than a slice.
constexpr size_t kMaxCopiedBytes = 1024;

// Largest number of frames in one message.
constexpr int kMaxFrames = 256;

// Largest number of unsent refusals. A peer that does not read them gets no
// more.
constexpr size_t kMaxRefusals = 1024;

grpc::Slice CopyOf(const FrameHeader& decoded,
                   absl::Span<const std::byte> payload) {
  const EncodedFrameHeader header = Encode(decoded);
  const grpc::Slice slice(header.size() + payload.size());
  // No other reader: the slice is new.
  auto* const begin = const_cast<uint8_t*>(slice.begin());
  std::memcpy(begin, header.data(), header.size());
  if (!payload.empty()) {
    std::memcpy(begin + header.size(), payload.data(), payload.size());
  }
  return slice;
}

absl::Status CheckSize(const ServedRequest& request, const Delivery& delivery) {
  const size_t num_bytes = request.recv.num_bytes;
  if (delivery.bytes.size() == num_bytes) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(delivery.bytes.size(), " bytes are lent where ", num_bytes,
                   " were asked for (", ToString(request.key), ")"));
}

}  // namespace

// Request until gRPC has its last frame.
class SendStream::Outgoing final : public ServedRequest {
 public:
  Outgoing(std::shared_ptr<SendStream> stream, const TransferRecord& record)
      : ServedRequest(stream->caller(), record.key,
                      {.num_bytes = record.num_bytes,
                       .dtype = record.dtype,
                       .incarnation = record.incarnation}),
        id(record.id),
        may_read_memory(record.may_read_memory),
        stream_(std::move(stream)) {}

  const uint64_t id;
  const bool may_read_memory;

  // Guarded by the stream's mutex:
  bool is_waiting = true;                 // The service has not answered.
  bool is_serving = false;                // Serve() of the service is running.
  std::optional<absl::Status> withdrawn;  // Set before the service knew it.
  std::shared_ptr<Loan> loan;             // Bytes to send;
  absl::Status status;                    // or the reason why there are none.
  size_t num_sent_bytes = 0;
  bool is_place_sent = false;  // The peer has the place of the bytes,
  bool is_read_there = false;  // and has not reported its end.

 private:
  void OnAnswer(absl::Status status, const Delivery& delivery) override {
    stream_->OnAnswer(*this, std::move(status), delivery);
  }

  const std::shared_ptr<SendStream> stream_;
};

SendStream::SendStream(TransferSender* shared, const ControlCaller& caller,
                       grpc::CallbackServerContext* context)
    : shared_(shared),
      caller_(caller),
      context_(context),
      peer_(context->peer()),
      lends_memory_(shared->options().same_host_memory && IsOnSameHost(peer_)) {
}

SendStream* SendStream::Begin(TransferSender* shared,
                              const ControlCaller& caller,
                              grpc::CallbackServerContext* context) {
  shared->in_flight().BeginMore();
  auto stream = std::make_shared<SendStream>(shared, caller, context);
  SendStream* const reactor = stream.get();
  shared->AddStream(stream);
  reactor->StartSendInitialMetadata();
  reactor->StartRead(&reactor->incoming_message_);
  return reactor;
}

void SendStream::OnReadDone(bool ok) {
  if (!ok) return Close(absl::OkStatus());
  const absl::Status status = TakeRecords(incoming_message_);
  incoming_message_.Clear();
  if (!status.ok()) return Close(status);
  {
    MutexLock lock(&mu_);
    if (is_closed_) return;
  }
  StartRead(&incoming_message_);
}

absl::Status SendStream::TakeRecords(const grpc::ByteBuffer& message) {
  SliceCursor cursor(message);
  while (cursor.remaining_bytes() > 0) {
    EncodedRecord encoded;
    if (!cursor.Read(absl::MakeSpan(encoded))) {
      return absl::InternalError("a record is too short");
    }
    const auto record = DecodeRecord(encoded);
    if (!record.ok()) return absl::InternalError(record.status().message());
    if (record->kind == RecordKind::kCancel) {
      const auto message = cursor.ReadText(record->num_bytes);
      if (!message.has_value()) {
        return absl::InternalError("a cancellation's message is too short");
      }
      CancelRequest(record->id, PeerStatus(record->code, *message));
      continue;
    }
    RETURN_IF_ERROR(record->kind == RecordKind::kRequest ? TakeRequest(*record)
                                                         : TakeBack(*record));
  }
  return absl::OkStatus();
}

absl::Status SendStream::TakeRequest(const TransferRecord& record) {
  const auto outgoing = std::make_shared<Outgoing>(shared_from_this(), record);
  absl::Status refused;
  {
    MutexLock lock(&mu_);
    if (is_closed_) return absl::OkStatus();
    if (open_.contains(record.id)) {
      return absl::InternalError(
          absl::StrCat("two requests have the id ", record.id));
    }
    refused = shared_->requests().Begin(caller_.task);
    if (refused.ok()) {
      open_.emplace(record.id, outgoing);
      outgoing->is_serving = true;
    } else if (ready_.size() >= open_.size() + kMaxRefusals) {
      return refused;
    } else {
      outgoing->is_waiting = false;
      outgoing->status = refused;
      ready_.push_back(outgoing);
    }
  }
  if (!refused.ok()) {
    WriteWhatIsReady();
  } else {
    Serve(outgoing);
  }
  return absl::OkStatus();
}

void SendStream::Serve(const std::shared_ptr<Outgoing>& outgoing) {
  shared_->in_flight().BeginMore();  // Ends when the service has answered.
  shared_->service().Serve(outgoing);
  std::optional<absl::Status> withdrawn;
  {
    MutexLock lock(&mu_);
    outgoing->is_serving = false;
    if (outgoing->is_waiting) withdrawn = std::move(outgoing->withdrawn);
  }
  if (withdrawn) {
    shared_->service().Withdraw(outgoing, *withdrawn);
  }
}

absl::Status SendStream::TakeBack(const TransferRecord& record) {
  std::shared_ptr<Loan> loan;
  {
    MutexLock lock(&mu_);
    if (is_closed_) return absl::OkStatus();
    const auto it = open_.find(record.id);
    if (it == open_.end() || !it->second->is_read_there ||
        record.num_bytes > it->second->recv.num_bytes) {
      return absl::InternalError(
          absl::StrCat("a record about what was lent to request ", record.id,
                       ", to which nothing is lent or less than ",
                       record.num_bytes, " bytes"));
    }
    Outgoing& outgoing = *it->second;
    outgoing.is_read_there = false;
    if (record.kind == RecordKind::kSend) {
      outgoing.num_sent_bytes = record.num_bytes;
    } else {
      outgoing.num_sent_bytes = outgoing.recv.num_bytes;
      loan = std::move(outgoing.loan);
    }
    ready_.push_back(it->second);
  }
  loan.reset();
  WriteWhatIsReady();
  return absl::OkStatus();
}

void SendStream::CancelRequest(uint64_t id, const absl::Status& reason) {
  std::shared_ptr<Outgoing> outgoing;
  std::shared_ptr<Loan> loan;
  {
    MutexLock lock(&mu_);
    const auto sent = sent_.find(id);
    if (sent != sent_.end()) {
      loan = sent->second.loan.lock();
      sent_.erase(sent);  // Watched only once.
    }
    const auto it = open_.find(id);
    if (it != open_.end()) {
      outgoing = it->second;
      outgoing->status = reason;  // Replaces the remaining bytes.
      if (outgoing->loan != nullptr) loan = std::move(outgoing->loan);
      if (outgoing->is_read_there) {
        outgoing->is_read_there = false;
        ready_.push_back(outgoing);
      }
    }
  }
  if (loan != nullptr) {
    Release(std::move(loan), reason);
  } else if (outgoing != nullptr) {
    Withdraw(outgoing, reason);
  }
  WriteWhatIsReady();
}

void SendStream::Cancel(const TransferChannel::Choice& choice,
                        const absl::Status& reason) {
  std::vector<std::shared_ptr<Loan>> loans;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, outgoing] : open_) {
      if (!outgoing->status.ok() || !choice(outgoing->key)) continue;
      outgoing->status = reason;  // Replaces the remaining bytes.
      loans.push_back(std::move(outgoing->loan));
    }
    absl::erase_if(sent_, [&](const auto& sent) {
      if (!choice(sent.second.key)) return false;
      loans.push_back(sent.second.loan.lock());
      return true;
    });
  }
  for (auto& loan : loans) {
    if (loan != nullptr) Release(std::move(loan), reason);
  }
}

void SendStream::Release(std::shared_ptr<Loan> loan,
                         const absl::Status& reason) {
  loan->Fail(reason);
  shared_->WatchSend(std::move(loan), peer_);
}

void SendStream::Withdraw(const std::shared_ptr<Outgoing>& outgoing,
                          const absl::Status& reason) {
  {
    MutexLock lock(&mu_);
    if (!outgoing->is_waiting) return;
    if (outgoing->is_serving) {  // Serve() handles it.
      outgoing->withdrawn = reason;
      return;
    }
  }
  shared_->service().Withdraw(outgoing, reason);
}

void SendStream::OnAnswer(Outgoing& outgoing, absl::Status status,
                          const Delivery& delivery) {
  std::shared_ptr<Loan> loan;
  if (status.ok()) {
    loan = std::make_shared<Loan>(
        delivery, shared_->options().environment.queue, &shared_->in_flight());
    status = CheckSize(outgoing, delivery);
  }
  {
    MutexLock lock(&mu_);
    outgoing.is_waiting = false;
    if (outgoing.status.ok()) outgoing.status = std::move(status);
    if (outgoing.status.ok() && is_closed_) outgoing.status = close_status_;
    if (!outgoing.status.ok()) {
      if (loan != nullptr) loan->Fail(outgoing.status);
      loan.reset();
    }
    outgoing.loan = std::move(loan);
    if (!is_closed_) {
      ready_.push_back(
          std::static_pointer_cast<Outgoing>(outgoing.shared_from_this()));
    }
  }
  WriteWhatIsReady();
  shared_->in_flight().End();
}

void SendStream::Close(const absl::Status& status) {
  absl::flat_hash_map<uint64_t, std::shared_ptr<Outgoing>> open;
  std::deque<std::shared_ptr<Outgoing>> ready;
  absl::Status reason = status;
  if (reason.ok()) {
    reason = ConnectionClosed(shared_->options().cluster.Label(caller_.task));
  }
  bool may_finish = false;
  {
    MutexLock lock(&mu_);
    if (is_closed_) return;
    is_closed_ = true;
    close_status_ = reason;
    finish_status_ = status;
    open.swap(open_);
    ready.swap(ready_);
    for (const auto& [id, outgoing] : open) {
      if (outgoing->loan == nullptr) continue;
      outgoing->loan->Fail(reason);
      outgoing->loan.reset();
    }
    may_finish = !is_writing_;  // Otherwise OnWriteDone() does.
  }
  for (const auto& [id, outgoing] : open) {
    shared_->requests().End(caller_.task);
    Withdraw(outgoing, reason);
  }
  if (may_finish) FinishStream();
}

void SendStream::Drop(const absl::Status& reason) {
  std::vector<std::shared_ptr<Loan>> loans;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, sent] : sent_) loans.push_back(sent.loan.lock());
  }
  for (const auto& loan : loans) {
    if (loan != nullptr) loan->Fail(reason);
  }
  loans.clear();
  Close(reason);
  shared_->Break(peer_);
}

void SendStream::FinishStream() {
  absl::Status status;
  {
    MutexLock lock(&mu_);
    status = finish_status_;
  }
  MarkAnswered(*context_);
  Finish(ToGrpc(status));
}

void SendStream::WriteWhatIsReady() {
  {
    MutexLock lock(&mu_);
    if (is_writing_ || is_closed_ || ready_.empty()) return;
    is_writing_ = true;
    const std::vector<grpc::Slice> slices = NextMessage();
    outgoing_message_ = grpc::ByteBuffer(slices.data(), slices.size());
  }
  StartWrite(&outgoing_message_);
}

std::vector<grpc::Slice> SendStream::NextMessage() {
  std::vector<grpc::Slice> slices;
  size_t max_bytes = shared_->options().bounds.max_frame_bytes;
  for (int i = 0; i < kMaxFrames && max_bytes > 0 && !ready_.empty(); ++i) {
    const std::shared_ptr<Outgoing> outgoing = std::move(ready_.front());
    ready_.pop_front();
    if (!AppendFrame(*outgoing, max_bytes, slices)) ready_.push_back(outgoing);
  }
  return slices;
}

bool SendStream::AppendFrame(Outgoing& outgoing, size_t& max_bytes,
                             std::vector<grpc::Slice>& slices) {
  const size_t num_bytes = outgoing.recv.num_bytes;
  FrameHeader header{.id = outgoing.id, .offset = outgoing.num_sent_bytes};
  if (!outgoing.status.ok()) {
    const std::string text =
        Cut(outgoing.status.message(), kMaxStatusMessageBytes);
    header.length = static_cast<uint32_t>(text.size());
    header.is_last = true;
    header.code = outgoing.status.code();
    slices.push_back(CopyOf(
        header, absl::MakeSpan(reinterpret_cast<const std::byte*>(text.data()),
                               text.size())));
    max_bytes -= std::min(max_bytes, text.size());
    EndRequest(outgoing);
    return true;
  }
  if (lends_memory_ && outgoing.may_read_memory && !outgoing.is_place_sent) {
    AppendPlace(outgoing, slices);
    return true;
  }
  const size_t length =
      std::min<size_t>(num_bytes - outgoing.num_sent_bytes, max_bytes);
  header.length = static_cast<uint32_t>(length);
  header.is_last = outgoing.num_sent_bytes + length == num_bytes;
  if (outgoing.loan == nullptr) {  // The peer has read everything.
    slices.push_back(CopyOf(header, {}));
    EndRequest(outgoing);
    return true;
  }
  const auto payload =
      outgoing.loan->bytes().subspan(outgoing.num_sent_bytes, length);
  if (length <= kMaxCopiedBytes) {
    slices.push_back(CopyOf(header, payload));
  } else {
    slices.push_back(CopyOf(header, {}));
    slices.push_back(
        Loan::Alias(outgoing.loan, outgoing.num_sent_bytes, length));
  }
  writing_.push_back(outgoing.loan);
  outgoing.num_sent_bytes += length;
  max_bytes -= length;
  if (!header.is_last) return false;
  sent_[outgoing.id] = {outgoing.key, std::move(outgoing.loan)};
  EndRequest(outgoing);
  return true;
}

void SendStream::AppendPlace(Outgoing& outgoing,
                             std::vector<grpc::Slice>& slices) {
  const MemoryPlace place =
      outgoing.loan->Lease(*shared_->options().environment.random);
  slices.push_back(CopyOf({.id = outgoing.id,
                           .length = kMemoryPlaceBytes,
                           .kind = FrameKind::kPlace},
                          absl::MakeConstSpan(Encode(place))));
  outgoing.is_place_sent = true;
  outgoing.is_read_there = true;
}

void SendStream::EndRequest(const Outgoing& outgoing) {
  const auto it = open_.find(outgoing.id);
  if (it == open_.end() || it->second.get() != &outgoing) return;
  open_.erase(it);
  shared_->requests().End(caller_.task);
}

void SendStream::OnWriteDone(bool ok) {
  std::vector<std::shared_ptr<Loan>> written;
  bool may_finish = false;
  outgoing_message_.Clear();
  {
    MutexLock lock(&mu_);
    is_writing_ = false;
    written.swap(writing_);
    may_finish = is_closed_;
  }
  if (!ok) {
    const absl::Status reason =
        ConnectionClosed(shared_->options().cluster.Label(caller_.task));
    for (const auto& loan : written) loan->Fail(reason);
  }
  written.clear();
  {
    MutexLock lock(&mu_);
    absl::erase_if(sent_,
                   [](const auto& sent) { return sent.second.loan.expired(); });
  }
  if (may_finish) return FinishStream();
  if (!ok) return Close(absl::OkStatus());
  WriteWhatIsReady();
}

void SendStream::OnCancel() { Close(absl::OkStatus()); }

void SendStream::OnDone() {
  const std::shared_ptr<SendStream> self = shared_from_this();
  shared_->RemoveStream(this);
  shared_->open_streams().End(caller_.task);
  shared_->in_flight().End();
}

}  // namespace tutti
