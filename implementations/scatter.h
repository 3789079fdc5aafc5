#ifndef TUTTI_IMPLEMENTATIONS_SCATTER_H_
#define TUTTI_IMPLEMENTATIONS_SCATTER_H_

#include "implementations/parts/cost.h"
#include "tutti/implementation.h"
#include "tutti/schedule.h"

namespace tutti {

// Plan and traffic of Scatter, for algorithms built on it. Tags: 1.
Schedule PlanScatter(const PlanRequest& request);
Traffic ScatterTraffic(const CostQuery& query);  // A block is one in n.

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_SCATTER_H_
