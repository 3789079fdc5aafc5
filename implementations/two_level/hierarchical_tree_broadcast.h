#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_TREE_BROADCAST_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_TREE_BROADCAST_H_

#include "implementations/parts/cost.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Plan and traffic of HierarchicalTreeBroadcast, for algorithms built on it.
// Tags: 1.
Schedule PlanHierarchicalTreeBroadcast(const PlanRequest& request);
Traffic HierarchicalTreeBroadcastTraffic(
    const CostQuery& query);  // A block is the buffer.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_TREE_BROADCAST_H_
