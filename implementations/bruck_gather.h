#ifndef TUTTI_IMPLEMENTATIONS_BRUCK_GATHER_H_
#define TUTTI_IMPLEMENTATIONS_BRUCK_GATHER_H_

#include "framework/implementation_traits.h"
#include "implementations/cost.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// BruckGather, for algorithms that it is a part of. Tags: n.
Schedule PlanBruckGather(const PlanRequest& request);
Traffic BruckGatherTraffic(const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_BRUCK_GATHER_H_
