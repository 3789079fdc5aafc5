#ifndef TUTTI_SCHEDULE_SIMULATE_SIMULATOR_H_
#define TUTTI_SCHEDULE_SIMULATE_SIMULATOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schedule/simulate/cluster_model.h"
#include "tutti/params.h"
#include "tutti/schedule.h"

namespace tutti {

// Simulates the time of a collective on a machine, which need not exist, from
// the outline of its rounds. The model is like LogGP (A. Alexandrov et al.,
// "LogGP: Incorporating Long Messages into the LogP Model", SPAA 1995). As in
// the engine, both ends of a transfer wait for it:
//
// - A rank begins a round when it has ended the round before: its sends have
//   been read, its receives have arrived, and it has reduced and copied.
// - A transfer begins when both its ranks have begun the round.
// - Within its task, a rank has its own link for each direction. Out of the
//   task, the task's ranks share a link for each direction (cluster_model.h). A
//   transfer occupies a link at each end for messages * seconds_per_message +
//   bytes / bandwidth. Transfers of one round on one link share it, and end
//   together when all have passed.
// - A transfer is complete one latency after it has passed both links.
// - The rank then does the reductions and copies of the round.
//
// If the cluster has hosts (cluster_model.h), their processors replace the
// links within a host, and do the reductions and copies of ranks:
//
// - A transfer within a host is a piece of work of the receiver, and takes as
//   long as it would occupy a link. Between tasks, seconds_per_message is also
//   a piece of work of the sender. The reductions and copies of a rank in a
//   round are another piece.
// - A chunk that a rank receives in this way and reduces in the same round
//   takes as long as the slower of the two: the engine reduces directly from
//   the peer's memory.
// - Pieces of a round run in the order in which they become ready, each on the
//   first free processor (host_work.h), after the pieces of earlier rounds.
//   Small pieces of a task also run one after the other.
//
// A rank's work therefore never overlaps with its own transfers, and transfers
// of different rounds do not overtake each other. All chunks have the same
// size, including fractions of bytes. A real run with fewer elements than
// chunks skips the empty chunks. Not modelled: other programs; caches, and
// memory bandwidth that ranks share; work of processors for links that leave
// their host; switches beyond the links of the cluster, routes, loss, noise.
//
// Times are whole picoseconds, exact up to 2.5 hours, so that they do not
// depend on the order of summation.

struct LinkUse {
  std::string name;
  double bytes = 0;     // Bytes on all links of the class.
  double messages = 0;  // Messages on all these links.
};

struct Simulation {
  double seconds = 0;  // End of the last rank.
  std::vector<LinkUse> links;
  double processor_seconds = 0;  // Work of all processors of hosts.
  int num_rounds = 0;
  int simulated_ranks = 0;  // Other ranks do the same, elsewhere.
};

// Limit of simulated ranks times rounds; if the outline bounds the transfers of
// a round (Outline::Size::most_transfers), only so many ranks count. Takes some
// minutes.
inline constexpr int64_t kMaxSimulatedRounds = int64_t{1} << 30;

// Limit of simulated transfers in one round, in proportion to the simulated
// ranks (Outline::Size::most_transfers). Takes some GB.
inline constexpr int64_t kMaxTransfersOfRound = int64_t{1} << 25;

// Simulates the outline. Pure. Simulates only one period of the outline, if
// layout and cluster have the same period. In a ring without hosts, simulates
// one transfer of each class of links (ring_sample.h).
//
// Errors: as CheckCluster(); INVALID_ARGUMENT if `layout` has another size than
// the outline; OUT_OF_RANGE if a chunk takes more than 1e188 s, because sums of
// such times overflow; RESOURCE_EXHAUSTED above kMaxSimulatedRounds or
// kMaxTransfersOfRound; INTERNAL if in some round ranks break the outline's
// claim of a period or a ring (checked for some ranks and rounds).
absl::StatusOr<Simulation> Simulate(const Outline& outline,
                                    const GroupLayout& layout,
                                    const ClusterModel& cluster,
                                    double chunk_bytes);

// Returns the number of ranks that stand for all ranks. With one task and no
// hosts, it is `period`. With several equal tasks, it is the smallest multiple
// of `period` that fills whole tasks, hosts and groups of each inner class of
// links. It is the size of the group if that number does not divide the size.
// Pure. REQUIRES: CheckCluster() is OK.
int SharedPeriod(int period, const GroupLayout& layout,
                 const ClusterModel& cluster);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_SIMULATOR_H_
