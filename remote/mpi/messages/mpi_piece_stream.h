#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_PIECE_STREAM_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_PIECE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_pieces.h"

namespace tutti {

// Messages between the processes of an MPI job, in order from each to each, as
// pieces (mpi_pieces.h) with one tag. Sends messages, and assembles the pieces
// that its owner receives. For MPI's thread, which it does not block; lives
// until that thread has ended.
class MpiPieceStream {
 public:
  // `runtime` outlives this object. Drops received messages longer than
  // `most_bytes`.
  MpiPieceStream(MpiEngine* runtime, int tag, size_t most_bytes)
      : runtime_(runtime), tag_(tag), reader_(most_bytes) {}

  // Sends a message. If MPI cannot send it, MPI ends the job.
  void Send(int task, absl::string_view message);

  // Takes a received piece of at most MostPieceBytes(). Calls `on_message`,
  // which may send, for messages that are now complete.
  void OnPiece(int task, absl::Span<const std::byte> piece,
               PieceReader::OnMessage on_message);

  // Returns whether MPI has pieces that it has not sent.
  bool is_sending() const { return num_sending_ > 0; }

  // Number of messages given to Send().
  uint64_t num_messages() const { return num_messages_; }

  // Returns whether one of the first `num_messages` messages, to one of
  // `tasks`, waits for a receipt of that task: MPI does not have all of it.
  bool HasWaiting(absl::Span<const int> tasks, uint64_t num_messages) const;

 private:
  // State of the messages to one task.
  struct Receiver {
    PieceWriter writer;
    struct Message {
      uint64_t number = 0;  // Counts the messages to all tasks, from 1.
      std::string bytes;
    };
    std::deque<Message> waiting;  // Wait for a receipt.
    size_t num_sent = 0;          // Sent bytes of the first one.
  };

  bool SendPieces(int task, Receiver& receiver, absl::string_view& message);
  void SendWaiting(int task, Receiver& receiver);
  void SendPiece(int task);

  MpiEngine* const runtime_;
  const int tag_;
  absl::flat_hash_map<int, Receiver> receivers_;
  PieceReader reader_;
  std::vector<std::byte> piece_;  // Memory for the next piece.
  size_t num_sending_ = 0;        // Pieces that MPI has not sent.
  uint64_t num_messages_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_PIECE_STREAM_H_
