#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_HOST_MEMORY_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_HOST_MEMORY_H_

#include <mpi.h>

#include <cstddef>

#include "absl/status/status.h"

namespace tutti {

// Memory that all processes of a host see. Not a window of MPI: it depends on
// the start of the job which of MPI's components can share windows, if any.
//
// The memory is a file without a name. The first process makes it; the others
// find it through that process (proc(5)). Nothing is left behind, however a
// process ends. Functions are for MPI's thread; the memory is for all threads.
class MpiHostMemory {
 public:
  MpiHostMemory() = default;
  ~MpiHostMemory() { Unmap(); }
  MpiHostMemory(const MpiHostMemory&) = delete;
  MpiHostMemory& operator=(const MpiHostMemory&) = delete;

  // Makes the memory. All processes of `local` call it together, once. If one
  // of them cannot have `num_bytes`, none has any. Errors: those that MPI
  // reports.
  absl::Status Share(MPI_Comm local, size_t num_bytes);

  // Returns the memory, all zeros at first and page-aligned; null if there is
  // none.
  std::byte* bytes() const { return bytes_; }

 private:
  void Map(int file, size_t num_bytes);
  void Unmap();

  std::byte* bytes_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_HOST_MEMORY_H_
