#ifndef TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_OUTLINE_H_
#define TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_OUTLINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "implementations/two_level/hierarchical_levels.h"
#include "tutti/schedule.h"

namespace tutti {

// Outline of PlanHierarchicalReduce() (hierarchical_reduce.h), made from
// outlines of its parts: their `outline` functions, or their plans. REQUIRES:
// CheckLevels() is OK.
//
// All tasks are alike. Inside tasks, all devices have their blocks in the same
// round r. The part between tasks therefore runs r rounds later than alone, for
// all blocks at once. Each of its chunks goes through the gather separately.
// Round g of the gather runs for each chunk whose results a task had g rounds
// ago.
//
// Errors, which name the part: UNIMPLEMENTED if tasks have different numbers of
// devices; UNIMPLEMENTED unless the part inside tasks brings each device one
// block, all in the same round; RESOURCE_EXHAUSTED if a part has no outline and
// is too large to plan.
absl::StatusOr<std::unique_ptr<const Outline>> HierarchicalReduceOutline(
    const PlanRequest& request, const ReduceLevels& levels);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_TWO_LEVEL_HIERARCHICAL_OUTLINE_H_
