#ifndef TUTTI_IMPLEMENTATIONS_HIERARCHICAL_TREE_BROADCAST_H_
#define TUTTI_IMPLEMENTATIONS_HIERARCHICAL_TREE_BROADCAST_H_

#include "framework/implementation_traits.h"
#include "implementations/cost.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// HierarchicalTreeBroadcast, for algorithms that it is a part of. Tags: 1.
Schedule PlanHierarchicalTreeBroadcast(const PlanRequest& request);
Traffic HierarchicalTreeBroadcastTraffic(
    const CostQuery& query);  // A block is the buffer.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_HIERARCHICAL_TREE_BROADCAST_H_
