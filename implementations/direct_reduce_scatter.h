#ifndef TUTTI_IMPLEMENTATIONS_DIRECT_REDUCE_SCATTER_H_
#define TUTTI_IMPLEMENTATIONS_DIRECT_REDUCE_SCATTER_H_

#include "implementations/parts/cost.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// DirectReduceScatter, for algorithms that it is a part of. Tags: 1.
Schedule PlanDirectReduceScatter(const PlanRequest& request);
Traffic DirectReduceScatterTraffic(
    const CostQuery& query);  // A block is one in n.

// What the request's rank does to reduce a chunk of all inputs in rank order,
// in one step: the others send it theirs. Returns the step, which finishes the
// chunk of its output.
StepRef AddReduction(const PlanRequest& request, int chunk, int tag,
                     ScheduleBuilder& builder);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_DIRECT_REDUCE_SCATTER_H_
