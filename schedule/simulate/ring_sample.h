#ifndef TUTTI_SCHEDULE_SIMULATE_RING_SAMPLE_H_
#define TUTTI_SCHEDULE_SIMULATE_RING_SAMPLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/simulate/cluster_links.h"
#include "tutti/schedule.h"

namespace tutti {

// Ranks of a ring (Outline::Size::is_ring) that take as long as the whole ring.
//
// Assume that no link carries two transfers of a round and ranks share no
// processors. A rank then waits only for its neighbours and its own transfers.
// After round r, no rank is later than the sum of the slowest transfers and the
// work of all rounds. Ranks at the ends of a slowest transfer are not earlier.
// Transfers of one class of links take equally long. A transfer of each class
// is therefore enough.
struct RingSample {
  std::vector<int> senders;    // A sender of each class that has transfers.
  std::vector<int> ranks;      // Senders and their receivers; increasing.
  std::vector<int64_t> times;  // By class: transfers in the round.
};

// Samples the transfers of a round, which are the transfers of one period of
// ranks. Returns nullopt if transfers share a link. Pure. REQUIRES: the
// transfers are of a ring, on a cluster of `num_classes` classes without hosts.
std::optional<RingSample> SampleRing(
    const std::vector<OutlineRound::Transfer>& transfers,
    const ClusterLinks& links, int num_classes);

// Returns true if `round` fits the claim of a ring. `first` is round 1. Both
// rounds are of the same `num_ranks` ranks. Pure.
bool IsRoundOfRing(int number, const OutlineRound& round,
                   const OutlineRound& first, int num_ranks);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_RING_SAMPLE_H_
