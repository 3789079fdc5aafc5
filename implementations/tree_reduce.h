#ifndef TUTTI_IMPLEMENTATIONS_TREE_REDUCE_H_
#define TUTTI_IMPLEMENTATIONS_TREE_REDUCE_H_

#include "implementations/parts/cost.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// TreeReduce, for algorithms that it is a part of. Tags: 2.
Schedule PlanTreeReduce(const PlanRequest& request);
Traffic TreeReduceTraffic(const CostQuery& query);  // A block is the buffer.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TREE_REDUCE_H_
