#ifndef TUTTI_IMPLEMENTATIONS_RING_REDUCE_H_
#define TUTTI_IMPLEMENTATIONS_RING_REDUCE_H_

#include "framework/implementation_traits.h"
#include "implementations/cost.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// RingReduce, for algorithms that it is a part of. Tags: 2 (n - 1) for each
// subdivision.
Schedule PlanRingReduce(const PlanRequest& request);
Traffic RingReduceTraffic(const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_RING_REDUCE_H_
