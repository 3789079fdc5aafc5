#ifndef TUTTI_SCHEDULE_SIMULATE_RING_SAMPLE_H_
#define TUTTI_SCHEDULE_SIMULATE_RING_SAMPLE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "schedule/simulate/cluster_links.h"
#include "tutti/schedule.h"

namespace tutti {

// The ranks of a ring (Outline::Size::is_ring) that take as long as all of it.
//
// Where no link carries two transfers of a round and no processors are shared,
// a rank waits for nothing but its neighbours and its own transfers. So after
// round r nobody is later than the slowest transfer of each round, and the
// work, one after the other; nor is any rank at the ends of a slowest transfer
// earlier. Those of one class of links take equally long, so that one of each
// class will do.
struct RingSample {
  std::vector<int> senders;    // One of each class that has transfers.
  std::vector<int> ranks;      // They, and who receives from them; increasing.
  std::vector<int64_t> times;  // By class: how many transfers one stands for.
};

// Of the transfers of a round, which are those of the ranks of one period. None
// if they share a link. Pure. REQUIRES: they are of a ring, on a cluster of
// `num_classes` without hosts.
std::optional<RingSample> SampleRing(
    const std::vector<OutlineRound::Transfer>& transfers,
    const ClusterLinks& links, int num_classes);

// Whether a round is as that claim says. `first` is round 1; both are of the
// same `num_ranks` ranks. Pure.
bool IsRoundOfRing(int number, const OutlineRound& round,
                   const OutlineRound& first, int num_ranks);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_RING_SAMPLE_H_
