#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_MESSAGES_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_MESSAGES_H_

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/strings/string_view.h"
#include "remote/mpi/messages/mpi_engine.h"
#include "remote/mpi/messages/mpi_piece_stream.h"

namespace tutti {

// Messages of any length between the processes of an MPI job, in order from
// each to each. For MPI's thread, which no message blocks. From Open() to
// Close() receives for short pieces are posted: one look finds all that has
// come. A process that stands still delays only messages from and to itself, as
// long as MPI sends pieces at once. Open MPI does so by default. Lives until
// MPI's thread has ended.
class MpiMessages {
 public:
  using OnMessage = std::function<void(int task, absl::string_view message)>;

  // `runtime` outlives this object. Takes a tag of messages: a message waits
  // for the receiver that took the same tag. Drops received messages longer
  // than `most_bytes`.
  MpiMessages(MpiEngine* runtime, size_t most_bytes);

  // Calls `on_message`, which may send, for each message from now on. Call
  // once.
  void Open(OnMessage on_message);
  void Close();  // Do not call inside `on_message`.

  void Send(int task, absl::string_view message) {
    stream_.Send(task, message);
  }
  bool is_sending() const { return stream_.is_sending(); }

 private:
  // Buffers that receive one piece after the other.
  struct Slot {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void Post(Slot& slot);
  void OnPiece(Slot& slot, const MPI_Status& status);

  MpiEngine* const runtime_;
  const int tag_;
  MpiPieceStream stream_;
  OnMessage on_message_;
  std::vector<Slot> slots_;
  bool is_open_ = false;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_MESSAGES_H_
