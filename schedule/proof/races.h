#ifndef TUTTI_SCHEDULE_PROOF_RACES_H_
#define TUTTI_SCHEDULE_PROOF_RACES_H_

#include "absl/status/status.h"
#include "schedule/step_order.h"

namespace tutti {

// Checks that the result does not depend on timing: if two steps of a rank use
// the same memory and one of them writes it, they are ordered. In place, input
// and output are the same memory. Bytes of a send are in use until the peer has
// read them.
//
// Errors: INVALID_ARGUMENT naming rank, both steps and the memory.
absl::Status CheckRaces(const GroupPlan& plan, StepOrder& order);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_PROOF_RACES_H_
