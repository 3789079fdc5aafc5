#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_HOST_MEMORY_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_HOST_MEMORY_H_

#include <mpi.h>

#include <cstddef>

#include "absl/status/status.h"

namespace tutti {

// Memory that all processes of a host see. Not a window of MPI's: which of its
// components can share those, if any, is for whoever starts the job to say.
//
// It is a file without a name, which the first process makes and the others
// find through that process (proc(5)); nothing is left behind however one ends.
// For MPI's thread; what is in it is for all.
class MpiHostMemory {
 public:
  MpiHostMemory() = default;
  ~MpiHostMemory() { Unmap(); }
  MpiHostMemory(const MpiHostMemory&) = delete;
  MpiHostMemory& operator=(const MpiHostMemory&) = delete;

  // All of `local` do it together. Once. If one cannot have `num_bytes` of it,
  // nobody has any. Errors: what MPI reports.
  absl::Status Share(MPI_Comm local, size_t num_bytes);

  // Zeros at first, on a page of their own. Null: there is none.
  std::byte* bytes() const { return bytes_; }

 private:
  void Map(int file, size_t num_bytes);
  void Unmap();

  std::byte* bytes_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_HOST_MEMORY_H_
