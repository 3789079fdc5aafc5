#include "remote/grpc/transfers/receive_stream.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/peer_status.h"
#include "framework/base/status_macros.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/slice.h"
#include "remote/grpc/connection/call_identity.h"
#include "remote/grpc/wire/control_messages.h"
#include "remote/grpc/wire/status_codec.h"

namespace tutti {
namespace {

// Payloads up to this are read at once: a turn of the work queue costs more
// than the wait of other transfers.
constexpr size_t kMaxInlineBytes = size_t{1} << 20;

absl::Status Broken(absl::string_view what) {
  return absl::InternalError(what);
}

}  // namespace

std::shared_ptr<ReceiveStream> ReceiveStream::Create(
    const GrpcTransportOptions* options, Peers* peers, const Target& target,
    OnEnd on_end) {
  auto stream = std::make_shared<ReceiveStream>(options, peers, target,
                                                std::move(on_end));
  stream->self_ = stream;
  return stream;
}

ReceiveStream::ReceiveStream(const GrpcTransportOptions* options, Peers* peers,
                             const Target& target, OnEnd on_end)
    : options_(options),
      peers_(peers),
      task_(target.task),
      lane_(target.lane),
      on_end_(std::move(on_end)),
      context_(std::make_unique<grpc::ClientContext>()) {
  MutexLock lock(&mu_);
  incarnation_ = peers_->Identify(task_, *context_);
}

ReceiveStream::~ReceiveStream() = default;

void ReceiveStream::Start() {
  peers_->Connect(
      task_, lane_,
      [self = shared_from_this()](const absl::StatusOr<Peers::Link>& link) {
        self->OnLink(link);
      });
}

void ReceiveStream::OnLink(const absl::StatusOr<Peers::Link>& link) {
  if (!link.ok()) return Close(link.status());
  {
    MutexLock lock(&mu_);
    if (is_done_) return;
    has_call_ = true;
    if (options_->same_host_memory) {
      memory_ = PeerMemory::Of(link->process);
      requests_memory_ = memory_.has_value();
    }
    grpc::GenericStub stub(link->channel);
    stub.PrepareBidiStreamingCall(context_.get(), kTransferMethod,
                                  grpc::StubOptions(), this);
    AddHold();  // Removed by StopWriting(): writes begin outside of reactions.
  }
  StartCall();
  WriteWhatWaits();
}

bool ReceiveStream::Request(const BufKey& key, const RecvRequest& recv) {
  {
    MutexLock lock(&mu_);
    if (ended_) return false;
    const uint64_t id = ++last_id_;
    const bool may_read_memory =
        requests_memory_ && recv.num_bytes >= kMinMemoryBytes;
    open_.emplace(id,
                  std::make_shared<Incoming>(id, key, recv, may_read_memory));
    Enqueue({.kind = RecordKind::kRequest,
             .id = id,
             .key = key,
             .num_bytes = recv.num_bytes,
             .dtype = recv.dtype,
             .incarnation = recv.incarnation,
             .may_read_memory = may_read_memory});
  }
  WriteWhatWaits();
  return true;
}

void ReceiveStream::Cancel(const TransferChannel::Choice& choice,
                           const absl::Status& reason) {
  std::vector<std::shared_ptr<Incoming>> chosen;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, incoming] : open_) {
      if (choice(incoming->key)) chosen.push_back(incoming);
    }
  }
  for (const auto& incoming : chosen) EndEarly(*incoming, reason);
}

void ReceiveStream::AddUnderWay(const TransferChannel::Choice& choice,
                                std::vector<BufKey>& keys) {
  MutexLock lock(&mu_);
  for (const auto& [id, incoming] : open_) {
    if (!incoming->is_reported && choice(incoming->key)) {
      keys.push_back(incoming->key);
    }
  }
}

// Ends a request on this side. The other side still ends it: until then its
// frames may come.
void ReceiveStream::EndEarly(Incoming& incoming, absl::Status reason) {
  bool may_report = false;
  {
    MutexLock lock(&mu_);
    if (incoming.is_reported || !incoming.end_reason.ok()) return;
    incoming.end_reason = reason;
    const std::string message = Cut(reason.message(), kMaxStatusMessageBytes);
    Enqueue({.kind = RecordKind::kCancel,
             .id = incoming.id,
             .num_bytes = message.size(),
             .code = reason.code()},
            message);
    may_report = !incoming.is_feeding;  // Otherwise the feeding thread does.
    incoming.is_reported = may_report;
  }
  WriteWhatWaits();
  if (may_report) Report(incoming, std::move(reason));
}

void ReceiveStream::CloseIfReplaced() {
  const uint64_t before = incarnation();
  const uint64_t now = peers_->incarnation(task_);
  if (before == 0 || before == now) return;
  Close(Restarted(peers_->Label(task_), before, now));
}

void ReceiveStream::Close(absl::Status reason) {
  {
    MutexLock lock(&mu_);
    if (close_reason_.ok()) close_reason_ = std::move(reason);
    ended_ = true;
    if (has_call_ && context_ != nullptr) context_->TryCancel();
    if (has_call_ || is_done_) return;
    done_reason_ = close_reason_;
    is_done_ = true;
  }
  EndAll();
}

void ReceiveStream::CloseIfIdle() {
  {
    MutexLock lock(&mu_);
    if (!open_.empty()) return;
    if (std::exchange(last_id_seen_, last_id_) != last_id_) return;
    ended_ = true;  // The next request opens another stream.
  }
  Close(absl::CancelledError("the stream is idle"));
}

uint64_t ReceiveStream::incarnation() {
  MutexLock lock(&mu_);
  return incarnation_;
}

// Starts to read once the peer is known: gRPC may report a message before the
// metadata that came earlier.
void ReceiveStream::OnReadInitialMetadataDone(bool ok) {
  if (ok) LearnWhoAnswers();
  StartRead(&incoming_message_);
}

void ReceiveStream::LearnWhoAnswers() {
  std::optional<uint64_t> incarnation;
  uint64_t expected = 0;
  {
    MutexLock lock(&mu_);
    incarnation = FindIncarnation(context_->GetServerInitialMetadata());
    if (!incarnation) return;
    expected = incarnation_;
  }
  absl::Status same = peers_->Observe(task_, expected, *incarnation);
  if (!same.ok()) return Close(std::move(same));
  // Set last: CloseIfReplaced() assumes that peers_ knows the newest.
  MutexLock lock(&mu_);
  incarnation_ = *incarnation;
}

void ReceiveStream::OnReadDone(bool ok) {
  if (!ok) return StopWriting();
  SliceCursor message(incoming_message_);
  incoming_message_.Clear();
  absl::Status status;
  while (status.ok() && message.remaining_bytes() > 0) {
    status = ConsumeFrame(message);
  }
  if (status.ok()) return StartRead(&incoming_message_);
  Close(absl::InternalError(
      absl::StrCat(peers_->Label(task_),
                   " sent what was not asked for: ", status.message())));
  StopWriting();
}

absl::Status ReceiveStream::ConsumeFrame(SliceCursor& message) {
  EncodedFrameHeader encoded;
  if (!message.Read(absl::MakeSpan(encoded))) {
    return Broken("a frame that is shorter than its header");
  }
  ASSIGN_OR_RETURN(const auto header, DecodeFrameHeader(encoded));
  if (header.length > message.remaining_bytes()) {
    return Broken("a frame that is shorter than its header says");
  }
  ASSIGN_OR_RETURN(auto incoming, Find(header));
  if (header.kind == FrameKind::kPlace) return TakePlace(incoming, message);

  if (header.code != absl::StatusCode::kOk) {
    End(*incoming, PeerStatus(header.code, *message.ReadText(header.length)));
    return absl::OkStatus();
  }
  const absl::Status fed = Feed(*incoming, header.length, message);
  if (!fed.ok()) EndEarly(*incoming, fed);
  if (header.is_last) End(*incoming, absl::OkStatus());
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ReceiveStream::Incoming>> ReceiveStream::Find(
    const FrameHeader& header) {
  std::shared_ptr<Incoming> incoming;
  {
    MutexLock lock(&mu_);
    const auto it = open_.find(header.id);
    if (it == open_.end()) {
      return Broken(absl::StrCat("a frame for request ", header.id,
                                 ", which is not open"));
    }
    incoming = it->second;
    if (header.code != absl::StatusCode::kOk) return incoming;
    if (incoming->is_at_reader) {
      return Broken(absl::StrCat("a frame for request ", header.id,
                                 ", to which bytes are lent"));
    }
  }
  if (header.kind == FrameKind::kPlace) return incoming;
  const size_t max_frame_bytes = options_->bounds.max_frame_bytes;
  if (header.length > max_frame_bytes) {
    return Broken(absl::StrCat("a frame of ", header.length,
                               " bytes, more than ", max_frame_bytes));
  }
  const uint64_t position = incoming->num_received_bytes;
  const uint64_t num_missing = incoming->recv.num_bytes - position;
  if (header.offset != position || header.length > num_missing ||
      header.is_last != (header.length == num_missing)) {
    return Broken(absl::StrCat("a frame of ", header.length, " bytes at ",
                               header.offset, ", where ", num_missing,
                               " bytes at ", position, " were missing (",
                               ToString(incoming->key), ")"));
  }
  return incoming;
}

absl::Status ReceiveStream::Feed(Incoming& incoming, size_t num_bytes,
                                 SliceCursor& message) {
  absl::Status status;
  {
    MutexLock lock(&mu_);
    incoming.is_feeding = incoming.end_reason.ok();
    status = incoming.end_reason;
  }
  while (num_bytes > 0) {
    const absl::Span<const std::byte> bytes = message.Next(num_bytes);
    num_bytes -= bytes.size();
    incoming.num_received_bytes += bytes.size();
    if (status.ok()) status = incoming.feeder.Feed(bytes);
  }
  absl::Status stopped;
  {
    MutexLock lock(&mu_);
    incoming.is_feeding = false;
    if (incoming.end_reason.ok() || incoming.is_reported) return status;
    stopped = incoming.end_reason;
    incoming.is_reported = true;
  }
  Report(incoming, std::move(stopped));
  return absl::OkStatus();
}

absl::Status ReceiveStream::TakePlace(const std::shared_ptr<Incoming>& incoming,
                                      SliceCursor& message) {
  EncodedMemoryPlace encoded;
  message.Read(absl::MakeSpan(encoded));
  const MemoryPlace place = DecodeMemoryPlace(encoded);
  const size_t num_bytes = incoming->recv.num_bytes;
  if (!incoming->may_read_memory || incoming->reader ||
      incoming->num_received_bytes > 0 || place.num_bytes != num_bytes) {
    return Broken(absl::StrCat("a place of ", place.num_bytes, " bytes, where ",
                               num_bytes, " bytes were asked for (",
                               ToString(incoming->key), ")"));
  }
  {
    MutexLock lock(&mu_);
    incoming->reader.emplace(*memory_, place);
    incoming->is_at_reader = true;
    if (!incoming->end_reason.ok()) return absl::OkStatus();
    at_reader_.push_back(incoming);
    if (is_reading_memory_) return absl::OkStatus();
    is_reading_memory_ = true;
  }
  if (num_bytes <= kMaxInlineBytes) {
    ReadMemory();
  } else {
    options_->environment.queue->Schedule(
        [self = self_] { self->ReadMemory(); });
  }
  return absl::OkStatus();
}

void ReceiveStream::ReadMemory() {
  bool may_end = false;
  while (true) {
    std::shared_ptr<Incoming> incoming;
    {
      MutexLock lock(&mu_);
      incoming = NextLent();
      if (incoming == nullptr) {
        is_reading_memory_ = false;
        may_end = is_done_;
        break;
      }
      incoming->is_feeding = true;
    }
    EndReading(*incoming, ReadBlocks(*incoming));
  }
  if (may_end) EndAll();
}

std::shared_ptr<ReceiveStream::Incoming> ReceiveStream::NextLent() {
  while (!at_reader_.empty()) {
    std::shared_ptr<Incoming> incoming = std::move(at_reader_.front());
    at_reader_.pop_front();
    if (!ended_ && !incoming->is_reported) return incoming;
  }
  return nullptr;
}

absl::Status ReceiveStream::ReadBlocks(Incoming& incoming) {
  if (block_ == nullptr) block_ = std::make_unique_for_overwrite<MemoryBlock>();
  LoanReader& reader = *incoming.reader;
  while (!reader.has_all()) {
    if (IsStopped(incoming)) return absl::OkStatus();
    const absl::Span<const std::byte> block =
        reader.ReadNext(incoming.recv.into, *block_);
    if (block.empty()) break;
    incoming.num_received_bytes += block.size();
    RETURN_IF_ERROR(incoming.feeder.Feed(block));
  }
  if (reader.has_all() && reader.AreLoaned()) return absl::OkStatus();
  incoming.was_taken_back = reader.WereTakenBack();
  if (!reader.has_all() || incoming.was_taken_back) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(peers_->Label(task_),
                   ": the bytes that it lent cannot be read any more (",
                   ToString(incoming.key), ")"));
}

bool ReceiveStream::IsStopped(const Incoming& incoming) {
  MutexLock lock(&mu_);
  return ended_ || !incoming.end_reason.ok();
}

// Asks the sender to send what was not read, or the reason why it took the
// bytes back.
void ReceiveStream::EndReading(Incoming& incoming, absl::Status status) {
  const bool has_all = incoming.num_received_bytes == incoming.recv.num_bytes &&
                       !incoming.was_taken_back;
  bool may_report = false;
  {
    MutexLock lock(&mu_);
    incoming.is_feeding = false;
    if (!incoming.end_reason.ok()) {
      status = incoming.end_reason;
      may_report = true;
    } else if (status.ok() && !(ended_ && !has_all)) {
      incoming.is_at_reader = false;
      requests_memory_ =
          requests_memory_ && (has_all || incoming.was_taken_back);
      Enqueue({.kind = has_all ? RecordKind::kRead : RecordKind::kSend,
               .id = incoming.id,
               .num_bytes = has_all ? 0 : incoming.num_received_bytes});
      may_report = has_all;
    }
    if (may_report) incoming.is_reported = true;
  }
  WriteWhatWaits();
  if (may_report) return Report(incoming, std::move(status));
  if (!status.ok()) EndEarly(incoming, std::move(status));
}

void ReceiveStream::End(Incoming& incoming, absl::Status status) {
  {
    MutexLock lock(&mu_);
    open_.erase(incoming.id);
    if (incoming.is_reported) return;
    if (incoming.is_feeding) {  // The reader of memory runs OnDelivery().
      if (incoming.end_reason.ok()) incoming.end_reason = std::move(status);
      return;
    }
    incoming.is_reported = true;
  }
  Report(incoming, std::move(status));
}

void ReceiveStream::Report(const Incoming& incoming, absl::Status status) {
  incoming.recv.receiver->OnDelivery(incoming.recv.id, std::move(status), {});
}

void ReceiveStream::Enqueue(const TransferRecord& record,
                            absl::string_view message) {
  if (ended_) return;
  waiting_records_.Add(record, message);
}

void ReceiveStream::WriteWhatWaits() {
  {
    MutexLock lock(&mu_);
    if (!has_call_ || is_writing_ || stopped_writing_ ||
        waiting_records_.empty()) {
      return;
    }
    is_writing_ = true;
    const grpc::Slice slice(waiting_records_.TakeMessage());
    outgoing_message_ = grpc::ByteBuffer(&slice, 1);
  }
  StartWrite(&outgoing_message_);
}

void ReceiveStream::OnWriteDone(bool ok) {
  bool may_go = false;
  {
    MutexLock lock(&mu_);
    is_writing_ = false;
    if (!ok) waiting_records_.clear();
    may_go = stopped_writing_;
  }
  if (may_go) return RemoveHold();
  WriteWhatWaits();
}

void ReceiveStream::StopWriting() {
  {
    MutexLock lock(&mu_);
    ended_ = true;
    stopped_writing_ = true;
    if (is_writing_) return;  // OnWriteDone() removes the hold.
  }
  RemoveHold();
}

absl::Status ReceiveStream::EndReason(const grpc::Status& status) {
  if (!close_reason_.ok()) return close_reason_;
  if (status.ok()) return ConnectionClosed(peers_->Label(task_));
  return IsAnswered(context_->GetServerTrailingMetadata())
             ? FromGrpc(status)
             : ConnectionError(peers_->Label(task_), status);
}

void ReceiveStream::OnDone(const grpc::Status& status) {
  {
    MutexLock lock(&mu_);
    done_reason_ = EndReason(status);
    peers_->Free(std::move(context_));
    is_done_ = true;
    if (is_reading_memory_) return;  // ReadMemory() then calls EndAll().
  }
  EndAll();
}

void ReceiveStream::EndAll() {
  const std::shared_ptr<ReceiveStream> self = std::move(self_);
  std::vector<std::pair<std::shared_ptr<Incoming>, absl::Status>> unreported;
  {
    MutexLock lock(&mu_);
    for (auto& [id, incoming] : open_) {
      if (std::exchange(incoming->is_reported, true)) continue;
      const absl::Status& own = incoming->end_reason;
      unreported.emplace_back(incoming, own.ok() ? done_reason_ : own);
    }
    open_.clear();
  }
  for (auto& [incoming, reason] : unreported)
    Report(*incoming, std::move(reason));
  std::move(on_end_)(this);
}

}  // namespace tutti
