#include "remote/mpi/messages/mpi_memories.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "absl/algorithm/container.h"
#include "remote/mpi/messages/mpi_requests.h"

namespace tutti {

// Proofs tell whose memory it is, even where process ids are of several
// namespaces. Processes of one job need not challenge each other.
absl::Status MpiMemories::Share(MPI_Comm local, absl::Span<const int> ranks,
                                int rank, bool open, Random& random) {
  struct Offer {
    MemoryOffer memory;
    MemoryChallenge challenge = {};
  };
  Offer own{.challenge = {random.Next(), random.Next()}};
  proof_ = MemoryProof(own.challenge, rank);
  if (open) {
    own.memory = {.pid = static_cast<uint64_t>(getpid()),
                  .address = reinterpret_cast<uintptr_t>(&proof_)};
  }
  std::vector<Offer> offers(ranks.size());
  const absl::Status status =
      MpiStatus(MPI_Allgather(&own, sizeof(own), MPI_BYTE, offers.data(),
                              sizeof(own), MPI_BYTE, local),
                "MPI_Allgather");
  if (!status.ok() || !open) return status;
  memories_.resize(static_cast<size_t>(*absl::c_max_element(ranks)) + 1);
  for (size_t i = 0; i < ranks.size(); ++i) {
    memories_[ranks[i]] =
        PeerMemory::Open(offers[i].memory, offers[i].challenge, ranks[i]);
  }
  return absl::OkStatus();
}

const PeerMemory* MpiMemories::Of(int rank) const {
  const bool is_known = static_cast<size_t>(rank) < memories_.size() &&
                        memories_[rank].has_value();
  return is_known ? &*memories_[rank] : nullptr;
}

}  // namespace tutti
