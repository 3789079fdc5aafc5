#ifndef TUTTI_IMPLEMENTATIONS_RECURSIVE_HALVING_REDUCE_SCATTER_H_
#define TUTTI_IMPLEMENTATIONS_RECURSIVE_HALVING_REDUCE_SCATTER_H_

#include "implementations/parts/cost.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// RecursiveHalvingReduceScatter, for algorithms that it is a part of. Tags:
// n.
Schedule PlanRecursiveHalvingReduceScatter(const PlanRequest& request);
Traffic RecursiveHalvingReduceScatterTraffic(
    const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_RECURSIVE_HALVING_REDUCE_SCATTER_H_
