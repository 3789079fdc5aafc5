#ifndef TUTTI_SCHEDULE_SIMULATE_LOWER_BOUND_H_
#define TUTTI_SCHEDULE_SIMULATE_LOWER_BOUND_H_

#include "absl/strings/string_view.h"
#include "schedule/simulate/cluster_model.h"
#include "tutti/collective.h"
#include "tutti/schedule.h"

namespace tutti {

// Seconds that any algorithm takes at least on a machine as Simulate() has it.
// Pure; 0 for one rank. The largest of
//
//  - Of the outermost links that join the group's ranks: one latency, and what
//    a part of the group that shares one must send or receive, at its
//    bandwidth.
//  - The smallest latency, and what one rank must send or receive, at the
//    bandwidth of all links together that it has a share in.
//  - Where the collective reduces: n - 1 reductions of the buffer, by n ranks,
//    or by the processors of the hosts, if there are fewer.
//
// Where a host's processors do the work of its links, as many links count as
// there are processors.
//
// What a part of m of the n ranks must send or receive, one of u parts, is
// LowerBoundFormula() of `bytes`, those of the larger of one rank's buffers.
// `request.rank` does not count. REQUIRES: CheckCluster() is OK.
double LowerBoundSeconds(const PlanRequest& request,
                         const ClusterModel& cluster, double bytes);

// "2 (u - 1) / u".
absl::string_view LowerBoundFormula(CollectiveType type);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_LOWER_BOUND_H_
