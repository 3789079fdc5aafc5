#ifndef TUTTI_REMOTE_MPI_MPI_SENDER_H_
#define TUTTI_REMOTE_MPI_MPI_SENDER_H_

#include <cstddef>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "remote/mpi/mpi_pieces.h"
#include "remote/mpi/mpi_runtime.h"

namespace tutti {

// Sends messages of any length to processes of an MPI job, in order to each, as
// pieces with one tag of messages. For MPI's thread, which it does not block;
// lives until that has ended.
class MpiSender {
 public:
  // `runtime` outlives this.
  MpiSender(MpiRuntime* runtime, int tag) : runtime_(runtime), tag_(tag) {}

  // If MPI cannot send it, it ends the job.
  void Send(int task, absl::string_view message);

  // Whether MPI still has some of them.
  bool is_sending() const { return num_sending_ > 0; }

 private:
  MpiRuntime* const runtime_;
  const int tag_;
  absl::flat_hash_map<int, PieceWriter> writers_;  // By task.
  std::vector<std::byte> piece_;                   // Memory for the next one.
  size_t num_sending_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_SENDER_H_
