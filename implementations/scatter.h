#ifndef TUTTI_IMPLEMENTATIONS_SCATTER_H_
#define TUTTI_IMPLEMENTATIONS_SCATTER_H_

#include "implementations/parts/cost.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Scatter, for algorithms that it is a part of. Tags: 1.
Schedule PlanScatter(const PlanRequest& request);
Traffic ScatterTraffic(const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_SCATTER_H_
