#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_MEMORIES_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_MEMORIES_H_

#include <mpi.h>

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "remote/peer_memory.h"
#include "tutti/environment.h"

namespace tutti {

// Memory of the processes of this host, which they may read of each other. For
// MPI's thread; lives as long as MPI's processes know each other.
class MpiMemories {
 public:
  MpiMemories() = default;
  MpiMemories(const MpiMemories&) = delete;
  MpiMemories& operator=(const MpiMemories&) = delete;

  // Exchanges access to memory. All processes of `local` call it together,
  // once. `ranks` are their ranks in the job, `rank` that of this process. A
  // process that is not `open` neither reads nor lets others read. Errors:
  // those that MPI reports.
  absl::Status Share(MPI_Comm local, absl::Span<const int> ranks, int rank,
                     bool open, Random& random);

  // Returns null if the memory is unreadable or unwanted.
  const PeerMemory* Of(int rank) const;

 private:
  MemoryProof proof_;  // Proof that this memory is ours.
  std::vector<std::optional<PeerMemory>> memories_;  // Indexed by rank.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_MEMORIES_H_
