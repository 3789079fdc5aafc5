#ifndef TUTTI_IMPLEMENTATIONS_RECURSIVE_HALVING_REDUCE_SCATTER_H_
#define TUTTI_IMPLEMENTATIONS_RECURSIVE_HALVING_REDUCE_SCATTER_H_

#include "implementations/parts/cost.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Plan and traffic of RecursiveHalvingReduceScatter, for algorithms built on
// it. Tags: n.
Schedule PlanRecursiveHalvingReduceScatter(const PlanRequest& request);
Traffic RecursiveHalvingReduceScatterTraffic(
    const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_RECURSIVE_HALVING_REDUCE_SCATTER_H_
