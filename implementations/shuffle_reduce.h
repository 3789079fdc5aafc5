#ifndef TUTTI_IMPLEMENTATIONS_SHUFFLE_REDUCE_H_
#define TUTTI_IMPLEMENTATIONS_SHUFFLE_REDUCE_H_

#include "framework/implementation_traits.h"
#include "implementations/cost.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// ShuffleReduce, for algorithms that it is a part of. Tags: n + 1.
Schedule PlanShuffleReduce(const PlanRequest& request);
Traffic ShuffleReduceTraffic(const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_SHUFFLE_REDUCE_H_
