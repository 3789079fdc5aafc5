#ifndef TUTTI_IMPLEMENTATIONS_BRUCK_GATHER_H_
#define TUTTI_IMPLEMENTATIONS_BRUCK_GATHER_H_

#include "implementations/parts/cost.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Plan and traffic of BruckGather, for algorithms built on it. Tags: n.
Schedule PlanBruckGather(const PlanRequest& request);
Traffic BruckGatherTraffic(const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_BRUCK_GATHER_H_
