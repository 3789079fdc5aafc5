#include "remote/mpi/messages/mpi_doorbells.h"

#include <cstddef>
#include <new>

#include "remote/mpi/messages/mpi_requests.h"

namespace tutti {
namespace {

// Size of a cache line: each doorbell has one.
constexpr size_t kDoorbellBytes = 64;

}  // namespace

absl::Status MpiDoorbells::Share(MPI_Comm local, const std::vector<int>& ranks,
                                 int rank, int size) {
  doorbells_.resize(size);
  doorbells_[rank] = &unshared_doorbell_;
  absl::Status status =
      host_memory_.Share(local, ranks.size() * kDoorbellBytes);
  if (!status.ok() || host_memory_.bytes() == nullptr) return status;
  for (size_t index = 0; index < ranks.size(); ++index) {
    void* const word = host_memory_.bytes() + index * kDoorbellBytes;
    doorbells_[ranks[index]] = ranks[index] == rank
                                   ? new (word) Doorbell()
                                   : static_cast<Doorbell*>(word);
  }
  all_ring_ = static_cast<int>(ranks.size()) == size;
  // Waits for all: no process may ring a doorbell that does not exist yet.
  return MpiStatus(MPI_Barrier(local), "MPI_Barrier");
}

}  // namespace tutti
