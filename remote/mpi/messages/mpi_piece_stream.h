#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_PIECE_STREAM_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_PIECE_STREAM_H_

#include <cstddef>
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
// pieces (mpi_pieces.h) with one tag of messages: sends them, and puts together
// what its owner receives. For MPI's thread, which it does not block; lives
// until that has ended.
class MpiPieceStream {
 public:
  // `runtime` outlives this. Messages of more than `most_bytes` are left out
  // when they come.
  MpiPieceStream(MpiEngine* runtime, int tag, size_t most_bytes)
      : runtime_(runtime), tag_(tag), reader_(most_bytes) {}

  // If MPI cannot send it, it ends the job.
  void Send(int task, absl::string_view message);

  // A piece of at most MostPieceBytes() has come. Calls `on_message`, which may
  // send, for messages that are whole now.
  void OnPiece(int task, absl::Span<const std::byte> piece,
               PieceReader::OnMessage on_message);

  // Whether MPI has pieces that it has not sent.
  bool is_sending() const { return num_sending_ > 0; }

 private:
  // Of what goes to one task.
  struct Receiver {
    PieceWriter writer;
    std::deque<std::string> waiting;  // For a receipt.
    size_t num_sent = 0;              // Bytes of the first of these.
  };

  bool SendPieces(int task, Receiver& receiver, absl::string_view& message);
  void SendWaiting(int task, Receiver& receiver);
  void SendPiece(int task);

  MpiEngine* const runtime_;
  const int tag_;
  absl::flat_hash_map<int, Receiver> receivers_;
  PieceReader reader_;
  std::vector<std::byte> piece_;  // Memory for the next one.
  size_t num_sending_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_PIECE_STREAM_H_
