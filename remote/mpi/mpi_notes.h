#ifndef TUTTI_REMOTE_MPI_MPI_NOTES_H_
#define TUTTI_REMOTE_MPI_MPI_NOTES_H_

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "remote/mpi/mpi_note.h"
#include "remote/mpi/mpi_note_messages.h"
#include "remote/mpi/mpi_requests.h"
#include "remote/mpi/mpi_runtime.h"

namespace tutti {

// Notes between the processes of an MPI job. For MPI's thread. A receive is
// posted from Open() to Close().
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
  MpiRuntime* const runtime_;
  const int tag_;
  MpiRequests sending_;
  std::vector<std::byte> outgoing_;  // Memory for the next one.
  std::vector<std::byte> incoming_;
  NoteReader reader_;
  MPI_Request receive_ = MPI_REQUEST_NULL;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_NOTES_H_
