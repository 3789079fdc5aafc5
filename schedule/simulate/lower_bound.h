#ifndef TUTTI_SCHEDULE_SIMULATE_LOWER_BOUND_H_
#define TUTTI_SCHEDULE_SIMULATE_LOWER_BOUND_H_

#include "schedule/simulate/cluster_model.h"
#include "tutti/collective.h"
#include "tutti/schedule.h"

namespace tutti {

// Lower bound of the seconds that any algorithm takes on a machine that
// Simulate() simulates. Pure; 0 for one rank. The largest of
//
// - at the outermost links that join the group's ranks: one latency, and the
//   bytes that the ranks behind one such link must send or receive, at its
//   bandwidth;
// - at one rank: the smallest latency, and the bytes that the rank must send or
//   receive, at the sum of the bandwidths of its links;
// - if the collective reduces: n - 1 reductions of the buffer, by n ranks, or
//   by all processors of the hosts, if there are hosts.
//
// If processors of a host do the work of links, the number of processors
// replaces the number of links.
//
// `bytes` is the size of the larger buffer of one rank. A part of m of the n
// ranks, one of u parts, must send or receive `bytes` times
//
//   2 (u - 1) / u  all_reduce
//   1              broadcast, reduce, scan, exscan
//   (n - m) / n    with blocks: all_gather, reduce_scatter, gather, scatter
//   m (n - m) / n  all_to_all
//   as many as leave the part  permute
//
// `request.rank` is ignored. REQUIRES: CheckCluster() is OK.
double LowerBoundSeconds(const PlanRequest& request,
                         const ClusterModel& cluster, double bytes);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_LOWER_BOUND_H_
