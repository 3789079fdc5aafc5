#ifndef TUTTI_REMOTE_MPI_MPI_NOTES_H_
#define TUTTI_REMOTE_MPI_MPI_NOTES_H_

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "remote/mpi/mpi_note.h"
#include "remote/mpi/mpi_requests.h"
#include "remote/mpi/mpi_runtime.h"

namespace tutti {

// Notes between the processes of an MPI job, as bytes: all run the same program
// on machines of one kind, as other collectives need too. For MPI's thread. A
// receive is posted from Open() to Close().
class MpiNotes {
 public:
  // `runtime` outlives this. Takes a tag of messages, as MpiMessenger does.
  explicit MpiNotes(MpiRuntime* runtime);

  void Open();
  void Close();  // Perhaps again.

  // REQUIRES: it carries at most MpiNote::kMostCarriedBytes.
  void Send(int task, const MpiNote& note);

  // Hands what has come to `on_note`, until Close(). False if nothing has come.
  bool Receive(const std::function<void(int task, const MpiNote&)>& on_note);

  bool Poll() { return sending_.Poll(); }
  bool is_sending() const { return sending_.size() > 0; }

 private:
  // What has come of a note that carries more than goes into one message.
  struct Arriving {
    MpiNote note;
    size_t num_bytes = 0;  // That it carries in all.
  };

  void SendBytes(int task, absl::Span<const std::byte> head,
                 absl::Span<const std::byte> tail);

  // The note that is there with this message; none: there is more to come, or
  // it is no message of a note.
  std::optional<MpiNote> Take(int task, absl::Span<const std::byte> message);

  MpiRuntime* const runtime_;
  const int tag_;
  MpiRequests sending_;
  std::vector<std::byte> outgoing_;  // Memory for the next one.
  std::vector<std::byte> incoming_;
  absl::flat_hash_map<int, Arriving> arriving_;  // By task.
  MPI_Request receive_ = MPI_REQUEST_NULL;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_NOTES_H_
