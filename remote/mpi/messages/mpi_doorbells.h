#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_DOORBELLS_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_DOORBELLS_H_

#include <mpi.h>

#include <vector>

#include "absl/status/status.h"
#include "remote/mpi/messages/doorbell.h"
#include "remote/mpi/messages/mpi_host_memory.h"

namespace tutti {

// Doorbells of the processes of this host, in memory that they share. Processes
// of a host that cannot share them act like processes of several hosts.
//
// Functions are for MPI's thread. The doorbells are for all threads.
class MpiDoorbells {
 public:
  MpiDoorbells() = default;
  MpiDoorbells(const MpiDoorbells&) = delete;
  MpiDoorbells& operator=(const MpiDoorbells&) = delete;

  // Shares the doorbells. All processes of `local`, with these ranks, call it
  // together, once. Errors: errors that MPI reports.
  absl::Status Share(MPI_Comm local, const std::vector<int>& ranks, int rank,
                     int size);

  // Doorbell of a rank; null: mostly of another host.
  Doorbell* Of(int rank) const { return doorbells_[rank]; }

  // Returns true if every possible sender can ring here.
  bool all_ring() const { return all_ring_; }

 private:
  MpiHostMemory host_memory_;
  Doorbell unshared_doorbell_;  // Own doorbell, if others cannot ring.
  std::vector<Doorbell*> doorbells_;
  bool all_ring_ = false;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_DOORBELLS_H_
