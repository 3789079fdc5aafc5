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

// Messages between the processes of an MPI job, of any length, in order from
// each to each. For MPI's thread, which none blocks. From Open() to Close()
// receives are posted, for short pieces, so that one look finds all that has
// come. A process that stands still keeps back no messages but those from it
// and to it, as long as MPI sends pieces at once, which Open MPI does unless it
// is told otherwise. Lives until MPI's thread has ended.
class MpiMessages {
 public:
  using OnMessage = std::function<void(int task, absl::string_view message)>;

  // `runtime` outlives this. Takes a tag of messages: what was sent by those
  // who took another one waits for them. Longer ones than `most_bytes` are left
  // out when they come.
  MpiMessages(MpiEngine* runtime, size_t most_bytes);

  // Calls `on_message`, which may send, for what comes, from now on. Once.
  void Open(OnMessage on_message);
  void Close();  // Not inside `on_message`.

  void Send(int task, absl::string_view message) {
    stream_.Send(task, message);
  }
  bool is_sending() const { return stream_.is_sending(); }

 private:
  // Where a piece is received, one after the other.
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
