#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "implementations/two_level/hierarchical_levels.h"
#include "tutti/schedule.h"

namespace tutti {

// The outline of PlanHierarchicalReduce() (hierarchical_reduce.h), made of
// those of its parts: their own ones, or as planned. REQUIRES: CheckLevels() is
// OK.
//
// All tasks are alike, and inside all devices have their blocks in the same
// round r. So what runs between tasks is r rounds later than by itself, for all
// blocks at once; and as each of its chunks makes its way through the gather
// alone, the gather is in every round as often as there are chunks that a task
// had the results of so many rounds ago.
//
// Errors, which name the part: UNIMPLEMENTED where tasks have different numbers
// of devices, and where what runs inside does not bring each of them a block,
// in the same round; RESOURCE_EXHAUSTED where a part has no outline and is too
// large to plan.
absl::StatusOr<std::unique_ptr<const Outline>> HierarchicalReduceOutline(
    const PlanRequest& request, const ReduceLevels& levels);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_OUTLINE_H_
