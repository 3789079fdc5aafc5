#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_NEIGHBOURS_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_NEIGHBOURS_H_

#include <mpi.h>

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "remote/mpi/messages/doorbell.h"
#include "remote/mpi/messages/mpi_host_memory.h"
#include "remote/peer_memory.h"
#include "tutti/environment.h"

namespace tutti {

// Processes of this host: their doorbells, in memory that all of them share,
// and their own memory, which they may read of each other. Processes that
// cannot share doorbells act like processes of several hosts.
//
// Functions are for MPI's thread. The doorbells are for all threads. Lives as
// long as MPI's processes know each other.
class MpiNeighbours {
 public:
  MpiNeighbours() = default;
  MpiNeighbours(const MpiNeighbours&) = delete;
  MpiNeighbours& operator=(const MpiNeighbours&) = delete;

  // Shares the doorbells, and access to memory. All processes of `local`, with
  // these ranks of `size`, call it together, once; `rank` is that of this
  // process. A process that is not `open` neither reads memory nor lets others
  // read. Errors: errors that MPI reports.
  struct Place {
    std::vector<int> ranks;
    int rank = 0;
    int size = 0;
    bool open = false;
  };
  absl::Status Share(MPI_Comm local, const Place& place, Random& random);

  // Doorbell of a rank; null: mostly of another host.
  Doorbell* doorbell_of(int rank) const { return doorbells_[rank]; }

  // Returns true if every possible sender can ring here.
  bool all_ring() const { return all_ring_; }

  // Returns null if the memory is unreadable or unwanted.
  const PeerMemory* memory_of(int rank) const {
    return memories_[rank].has_value() ? &*memories_[rank] : nullptr;
  }

 private:
  absl::Status ShareDoorbells(MPI_Comm local, const Place& place);
  absl::Status ShareMemories(MPI_Comm local, const Place& place,
                             Random& random);

  MpiHostMemory host_memory_;
  Doorbell unshared_doorbell_;  // Own doorbell, if others cannot ring.
  bool all_ring_ = false;
  MemoryProof proof_;  // Proof that this memory is ours.

  // Indexed by rank.
  std::vector<Doorbell*> doorbells_;
  std::vector<std::optional<PeerMemory>> memories_;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_NEIGHBOURS_H_
