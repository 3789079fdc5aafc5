#ifndef TUTTI_SCHEDULE_PROOF_RACES_H_
#define TUTTI_SCHEDULE_PROOF_RACES_H_

#include "absl/status/status.h"
#include "schedule/step_order.h"

namespace tutti {

// OK if the result does not depend on timing: any two steps of a rank that use
// the same memory, one of them to write it, are ordered. In place, input and
// output are the same memory; what is sent is in use until it has been read.
//
// Errors: INVALID_ARGUMENT naming rank, both steps and the memory.
absl::Status CheckRaces(const GroupPlan& plan, StepOrder& order);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_RACES_H_
