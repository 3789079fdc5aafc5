#ifndef TUTTI_IMPLEMENTATIONS_DOUBLE_TREE_REDUCE_H_
#define TUTTI_IMPLEMENTATIONS_DOUBLE_TREE_REDUCE_H_

#include "framework/implementation_traits.h"
#include "implementations/cost.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// DoubleTreeReduce with one chunk per rank, for algorithms that it is a part
// of: chunks of even number go through one tree, the others through the other.
// Tags: as many as ranks.
Schedule PlanDoubleTreeReduceOfBlocks(const PlanRequest& request);
Traffic DoubleTreeReduceOfBlocksTraffic(
    const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_DOUBLE_TREE_REDUCE_H_
