#ifndef TUTTI_IMPLEMENTATIONS_DIRECT_REDUCE_SCATTER_H_
#define TUTTI_IMPLEMENTATIONS_DIRECT_REDUCE_SCATTER_H_

#include "framework/implementation_traits.h"
#include "implementations/cost.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// DirectReduceScatter, for algorithms that it is a part of. Tags: 1.
Schedule PlanDirectReduceScatter(const PlanRequest& request);
Traffic DirectReduceScatterTraffic(
    const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_DIRECT_REDUCE_SCATTER_H_
