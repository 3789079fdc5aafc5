#ifndef TUTTI_IMPLEMENTATIONS_DIRECT_REDUCE_SCATTER_H_
#define TUTTI_IMPLEMENTATIONS_DIRECT_REDUCE_SCATTER_H_

#include "implementations/parts/cost.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Plan and traffic of DirectReduceScatter, for algorithms built on it. Tags: 1.
Schedule PlanDirectReduceScatter(const PlanRequest& request);
Traffic DirectReduceScatterTraffic(
    const CostQuery& query);  // A block is one in n.

// Adds the steps by which the request's rank reduces a chunk of all inputs in
// rank order, in one step. The others send it their chunk. Returns the step
// that finishes the chunk of the output.
StepRef AddReduction(const PlanRequest& request, int chunk, int tag,
                     ScheduleBuilder& builder);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_DIRECT_REDUCE_SCATTER_H_
