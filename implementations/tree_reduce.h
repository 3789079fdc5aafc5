#ifndef TUTTI_IMPLEMENTATIONS_TREE_REDUCE_H_
#define TUTTI_IMPLEMENTATIONS_TREE_REDUCE_H_

#include "implementations/parts/cost.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Plan and traffic of TreeReduce, for algorithms built on it. Tags: 2.
Schedule PlanTreeReduce(const PlanRequest& request);
Traffic TreeReduceTraffic(const CostQuery& query);  // A block is the buffer.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TREE_REDUCE_H_
