#include "remote/mpi/messages/mpi_neighbours.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

#include "framework/base/status_macros.h"
#include "remote/mpi/messages/mpi_requests.h"

namespace tutti {
namespace {

// Size of a cache line: each doorbell has one.
constexpr size_t kDoorbellBytes = 64;

}  // namespace

absl::Status MpiNeighbours::Share(MPI_Comm local, const Place& place,
                                  Random& random) {
  doorbells_.resize(place.size);
  memories_.resize(place.size);
  RETURN_IF_ERROR(ShareDoorbells(local, place));
  return ShareMemories(local, place, random);
}

absl::Status MpiNeighbours::ShareDoorbells(MPI_Comm local, const Place& place) {
  const auto& [ranks, rank, size, open] = place;
  doorbells_[rank] = &unshared_doorbell_;
  RETURN_IF_ERROR(host_memory_.Share(local, ranks.size() * kDoorbellBytes));
  if (host_memory_.bytes() == nullptr) return absl::OkStatus();
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

// Proofs tell whose memory it is, even where process ids are of several
// namespaces. Processes of one job need not challenge each other.
absl::Status MpiNeighbours::ShareMemories(MPI_Comm local, const Place& place,
                                          Random& random) {
  struct Offer {
    MemoryOffer memory;
    MemoryChallenge challenge = {};
  };
  Offer own{.challenge = {random.Next(), random.Next()}};
  proof_ = MemoryProof(own.challenge, place.rank);
  if (place.open) {
    own.memory = {.pid = static_cast<uint64_t>(getpid()),
                  .address = reinterpret_cast<uintptr_t>(&proof_)};
  }
  std::vector<Offer> offers(place.ranks.size());
  RETURN_IF_ERROR(
      MpiStatus(MPI_Allgather(&own, sizeof(own), MPI_BYTE, offers.data(),
                              sizeof(own), MPI_BYTE, local),
                "MPI_Allgather"));
  if (!place.open) return absl::OkStatus();
  for (size_t i = 0; i < offers.size(); ++i) {
    const int rank = place.ranks[i];
    memories_[rank] =
        PeerMemory::Open(offers[i].memory, offers[i].challenge, rank);
  }
  return absl::OkStatus();
}

}  // namespace tutti
