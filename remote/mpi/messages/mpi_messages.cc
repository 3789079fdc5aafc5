#include "remote/mpi/messages/mpi_messages.h"

#include <utility>

#include "absl/algorithm/container.h"

namespace tutti {
namespace {

// Number of posted receives. Most are for pieces that come at once. Some pieces
// come slowly, as between hosts: these take one receive for each sender.
constexpr size_t kNumSlots = 16;

}  // namespace

void MpiMessages::Open(OnMessage on_message) {
  on_message_ = std::move(on_message);
  is_open_ = true;
  slots_.resize(kNumSlots);
  for (Slot& slot : slots_) {
    slot.bytes.resize(MostPieceBytes());
    Post(slot);
  }
}

void MpiMessages::Close() {
  is_open_ = false;
  for (Slot& slot : slots_) {
    if (slot.request != MPI_REQUEST_NULL) MPI_Cancel(&slot.request);
  }
}

void MpiMessages::PostReceive(absl::Span<std::byte> piece,
                              MPI_Request* request) const {
  MPI_Irecv(piece.data(), static_cast<int>(piece.size()), MPI_BYTE,
            MPI_ANY_SOURCE, tag_, runtime_->messages(), request);
}

void MpiMessages::Post(Slot& slot) {
  PostReceive(absl::MakeSpan(slot.bytes), &slot.request);
  runtime_->Await(slot.request, [this, &slot](const MPI_Status& status) {
    slot.request = MPI_REQUEST_NULL;
    if (!is_open_) return;
    OnPiece(slot.bytes, status, on_message_);
    Post(slot);
  });
}

void MpiMessages::Send(int task, absl::string_view message) {
  Receiver& receiver = receivers_[task];
  ++num_messages_;
  if (SendPieces(task, receiver, message)) return;
  receiver.waiting.push_back(
      {.number = num_messages_, .bytes = std::string(message)});
}

bool MpiMessages::HasWaiting(absl::Span<const int> tasks,
                             uint64_t num_messages) const {
  return absl::c_any_of(tasks, [&](int task) {
    const auto found = receivers_.find(task);
    return found != receivers_.end() && !found->second.waiting.empty() &&
           found->second.waiting.front().number <= num_messages;
  });
}

void MpiMessages::OnPiece(absl::Span<const std::byte> piece,
                          const MPI_Status& status,
                          PieceReader::OnMessage on_message) {
  const int task = status.MPI_SOURCE;
  int num_bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &num_bytes);
  piece = piece.first(static_cast<size_t>(num_bytes));
  if (const auto num_taken = ReadReceipt(piece); num_taken.has_value()) {
    Receiver& receiver = receivers_[task];
    receiver.writer.OnReceipt(*num_taken);
    return SendWaiting(task, receiver);
  }
  reader_.Take(task, piece, on_message);
  if (!reader_.TakeReceipt(task, piece_)) return;
  SendPiece(task);
  runtime_->Ring(task);
}

// Returns false if the rest of the message must wait, like the messages already
// waiting.
bool MpiMessages::SendPieces(int task, Receiver& receiver,
                             absl::string_view& message) {
  bool is_whole = false;
  while (!is_whole && receiver.writer.Next(message, piece_)) {
    SendPiece(task);
    is_whole = message.empty();
  }
  runtime_->Ring(task);
  return is_whole;
}

void MpiMessages::SendWaiting(int task, Receiver& receiver) {
  while (!receiver.waiting.empty()) {
    const absl::string_view first = receiver.waiting.front().bytes;
    absl::string_view left = first.substr(receiver.num_sent);
    const bool is_whole = SendPieces(task, receiver, left);
    receiver.num_sent = is_whole ? 0 : first.size() - left.size();
    if (!is_whole) return;
    receiver.waiting.pop_front();
  }
}

void MpiMessages::SendPiece(int task) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Isend(piece_.data(), static_cast<int>(piece_.size()), MPI_BYTE, task,
            tag_, runtime_->messages(), &request);
  int has_ended = 0;
  MPI_Test(&request, &has_ended, MPI_STATUS_IGNORE);
  if (has_ended != 0) return;
  ++num_sending_;
  runtime_->Await(request, [this, task, kept = std::exchange(piece_, {})](
                               const MPI_Status& /*status*/) {
    --num_sending_;
    runtime_->Ring(task);  // Rings only now that the piece is sent.
  });
}

}  // namespace tutti
