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

// The memory of the processes of this host, which they may read of each other.
// For MPI's thread; lives as long as MPI's processes know each other.
class MpiMemories {
 public:
  MpiMemories() = default;
  MpiMemories(const MpiMemories&) = delete;
  MpiMemories& operator=(const MpiMemories&) = delete;

  // All of `local` do it together, whose ranks in the job are `ranks`, that of
  // this process `rank`. One that is not `open` neither reads nor lets others
  // read. Once. Errors: what MPI reports.
  absl::Status Share(MPI_Comm local, absl::Span<const int> ranks, int rank,
                     bool open, Random& random);

  // Null: it cannot be read, or is not to be.
  const PeerMemory* Of(int rank) const;

 private:
  MemoryProof proof_;  // That what lies here is ours.
  std::vector<std::optional<PeerMemory>> memories_;  // By rank.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_MEMORIES_H_
