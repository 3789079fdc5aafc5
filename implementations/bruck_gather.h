#ifndef TUTTI_IMPLEMENTATIONS_BRUCK_GATHER_H_
#define TUTTI_IMPLEMENTATIONS_BRUCK_GATHER_H_

#include "framework/implementation_traits.h"
#include "schedule/plan.h"
#include "schedule/schedule.h"

namespace tutti {

// BruckGather, for algorithms that it is a part of. Tags: n.
Schedule PlanBruckGather(const PlanRequest& request);
double BruckGatherSeconds(const CostQuery& query);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_BRUCK_GATHER_H_
