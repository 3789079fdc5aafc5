#ifndef TUTTI_IMPLEMENTATIONS_TREE_REDUCE_H_
#define TUTTI_IMPLEMENTATIONS_TREE_REDUCE_H_

#include "framework/implementation_traits.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// TreeReduce, for algorithms that it is a part of. Tags: 2.
Schedule PlanTreeReduce(const PlanRequest& request);
double TreeReduceSeconds(const CostQuery& query);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TREE_REDUCE_H_
