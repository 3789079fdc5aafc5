#include "remote/mpi/messages/mpi_piece_stream.h"

#include <mpi.h>

#include <utility>

#include "absl/algorithm/container.h"

namespace tutti {

void MpiPieceStream::Send(int task, absl::string_view message) {
  Receiver& receiver = receivers_[task];
  ++num_messages_;
  if (SendPieces(task, receiver, message)) return;
  receiver.waiting.push_back(
      {.number = num_messages_, .bytes = std::string(message)});
}

bool MpiPieceStream::HasWaiting(absl::Span<const int> tasks,
                                uint64_t num_messages) const {
  return absl::c_any_of(tasks, [&](int task) {
    const auto found = receivers_.find(task);
    return found != receivers_.end() && !found->second.waiting.empty() &&
           found->second.waiting.front().number <= num_messages;
  });
}

void MpiPieceStream::OnPiece(int task, absl::Span<const std::byte> piece,
                             PieceReader::OnMessage on_message) {
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
bool MpiPieceStream::SendPieces(int task, Receiver& receiver,
                                absl::string_view& message) {
  bool is_whole = false;
  while (!is_whole && receiver.writer.Next(message, piece_)) {
    SendPiece(task);
    is_whole = message.empty();
  }
  runtime_->Ring(task);
  return is_whole;
}

void MpiPieceStream::SendWaiting(int task, Receiver& receiver) {
  while (!receiver.waiting.empty()) {
    const absl::string_view first = receiver.waiting.front().bytes;
    absl::string_view left = first.substr(receiver.num_sent);
    const bool is_whole = SendPieces(task, receiver, left);
    receiver.num_sent = is_whole ? 0 : first.size() - left.size();
    if (!is_whole) return;
    receiver.waiting.pop_front();
  }
}

void MpiPieceStream::SendPiece(int task) {
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
