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

// The time that a collective takes on a machine that need not exist, from what
// its ranks do round by round. Like LogGP (A. Alexandrov et al., "LogGP:
// Incorporating Long Messages into the LogP Model", SPAA 1995), with transfers
// for which both ends wait, as the engine's do:
//
//  - A rank begins a round when it has ended the round before: its own sends
//    have been read, what it receives is there, and that is reduced or copied.
//  - A transfer begins when both its ranks have begun the round, at the later.
//  - A rank has a link of its own for each direction within its task, and the
//    ranks of a task share one for each direction out of it (cluster_model.h).
//    A transfer occupies one at each end for chunks * seconds_per_message +
//    bytes / bandwidth. What passes a link in one round shares it, and ends
//    together, when that of all has passed.
//  - It is complete one latency after it has passed both links.
//  - Then the rank reduces and copies what the round has for it.
//
// Where the cluster has hosts (cluster_model.h), processors take the place of
// the links within one, and do what ranks reduce and copy:
//
//  - A transfer within a host is a piece of work of the receiver's, as long as
//    it would occupy a link; between tasks seconds_per_message is one of the
//    sender's, too. What a rank reduces and copies in a round is another.
//  - What a rank receives so and reduces in the same round takes as long as the
//    slower of the two: the engine reduces straight out of the peer's memory.
//  - Pieces of a round are done in the order in which they are ready, each by
//    the first processor that is free (host_work.h), after those of earlier
//    rounds. Small ones of a task wait for each other, too.
//
// So a rank's work is not at once with its own transfers, and transfers of
// different rounds do not overtake each other. Chunks have the same size,
// fractions of bytes included: where there are fewer elements than chunks, a
// real run leaves the empty ones out. Not modelled: what other programs occupy;
// caches, and memory whose bandwidth ranks share; work of processors for links
// that leave their host; switches beyond the links of the cluster, routes,
// loss, noise.
//
// Times are whole picoseconds, exact up to 2.5 hours, so that they do not
// depend on the order of summation.

struct LinkUse {
  std::string name;
  double bytes = 0;     // That pass such links, in all.
  double messages = 0;  // The same.
};

struct Simulation {
  double seconds = 0;  // Until the last rank has ended.
  std::vector<LinkUse> links;
  double processor_seconds = 0;  // That processors of hosts work, in all.
  int num_rounds = 0;
  int simulated_ranks = 0;  // The others do the same, elsewhere.
};

// At most so many ranks times rounds are simulated, or ranks that are busy
// (Outline::Size::busy_ranks); some minutes.
inline constexpr int64_t kMaxSimulatedRounds = int64_t{1} << 30;

// At most so many transfers of one round are simulated
// (Outline::Size::most_transfers, of the ranks that are); some GB.
inline constexpr int64_t kMaxTransfersOfRound = int64_t{1} << 25;

// Pure. Simulates only as many ranks as the outline's period, where the layout
// and the cluster have it too; of a ring, without hosts, a transfer of each
// class of links (ring_sample.h). Errors: as CheckCluster(); INVALID_ARGUMENT
// if `layout` is of another size than the outline; OUT_OF_RANGE
// if a chunk takes more than 1e188 s, which do not add up; RESOURCE_EXHAUSTED
// above kMaxSimulatedRounds or kMaxTransfersOfRound; INTERNAL if, in some
// round, ranks do not do what the outline says of its period or of a ring
// (looked at for some ranks and rounds).
absl::StatusOr<Simulation> Simulate(const Outline& outline,
                                    const GroupLayout& layout,
                                    const ClusterModel& cluster,
                                    double chunk_bytes);

// The number of ranks that stand for all of them: the smallest multiple of
// `period` that begins a new task, and a new group of each inner class of
// links, as often as the ranks before; else the size of the group. Pure.
// REQUIRES: CheckCluster() is OK.
int SharedPeriod(int period, const GroupLayout& layout,
                 const ClusterModel& cluster);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_SIMULATOR_H_
