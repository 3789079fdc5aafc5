#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_MESSAGES_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_MESSAGES_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_pieces.h"

namespace tutti {

// Messages of any length between the processes of an MPI job, in order from
// each to each, as pieces (mpi_pieces.h) with one tag. For MPI's thread, which
// no message blocks; lives until that thread has ended. From Open() to Close()
// receives for pieces are posted: one look finds all that has come. An owner
// that does not call Open() posts its own receives, and passes on their pieces.
// A process that stands still delays only messages from and to itself, as long
// as MPI sends pieces at once. Open MPI does so by default.
class MpiMessages {
 public:
  using OnMessage = std::function<void(int task, absl::string_view message)>;

  // `runtime` outlives this object. Takes a tag of messages: a message waits
  // for the receiver that took the same tag. Drops received messages longer
  // than `most_bytes`.
  MpiMessages(MpiEngine* runtime, size_t most_bytes)
      : runtime_(runtime),
        tag_(runtime->NewMessageTag()),
        reader_(most_bytes) {}

  // Calls `on_message`, which may send, for each message from now on. Call
  // once.
  void Open(OnMessage on_message);
  void Close();  // Do not call inside `on_message`.

  // Posts a receive for a piece of at most MostPieceBytes().
  void PostReceive(absl::Span<std::byte> piece, MPI_Request* request) const;

  // Takes the piece of a receive that has ended. Calls `on_message`, which may
  // send, for messages that are now complete.
  void OnPiece(absl::Span<const std::byte> piece, const MPI_Status& status,
               PieceReader::OnMessage on_message);

  // Sends a message. If MPI cannot send it, MPI ends the job.
  void Send(int task, absl::string_view message);

  // Returns whether MPI has pieces that it has not sent.
  bool is_sending() const { return num_sending_ > 0; }

  // Number of messages given to Send().
  uint64_t num_messages() const { return num_messages_; }

  // Returns whether one of the first `num_messages` messages, to one of
  // `tasks`, waits for a receipt of that task: MPI does not have all of it.
  bool HasWaiting(absl::Span<const int> tasks, uint64_t num_messages) const;

 private:
  // Buffers that receive one piece after the other.
  struct Slot {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

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

  void Post(Slot& slot);
  bool SendPieces(int task, Receiver& receiver, absl::string_view& message);
  void SendWaiting(int task, Receiver& receiver);
  void SendPiece(int task);

  MpiEngine* const runtime_;
  const int tag_;
  OnMessage on_message_;
  std::vector<Slot> slots_;
  bool is_open_ = false;

  absl::flat_hash_map<int, Receiver> receivers_;
  PieceReader reader_;
  std::vector<std::byte> piece_;  // Memory for the next piece.
  size_t num_sending_ = 0;        // Pieces that MPI has not sent.
  uint64_t num_messages_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_MESSAGES_H_
