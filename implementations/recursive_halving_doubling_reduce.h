#ifndef TUTTI_IMPLEMENTATIONS_RECURSIVE_HALVING_DOUBLING_REDUCE_H_
#define TUTTI_IMPLEMENTATIONS_RECURSIVE_HALVING_DOUBLING_REDUCE_H_

#include "framework/implementation_traits.h"
#include "implementations/cost.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// RecursiveHalvingDoublingReduce, for algorithms that it is a part of. Tags:
// 2 n.
Schedule PlanRecursiveHalvingDoublingReduce(const PlanRequest& request);
Traffic RecursiveHalvingDoublingReduceTraffic(
    const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_RECURSIVE_HALVING_DOUBLING_REDUCE_H_
