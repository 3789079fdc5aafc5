#ifndef TUTTI_SCHEDULE_SIMULATE_OUTLINE_TESTING_H_
#define TUTTI_SCHEDULE_SIMULATE_OUTLINE_TESTING_H_

#include "absl/status/status.h"
#include "schedule/proof/verifier.h"
#include "tutti/schedule.h"

namespace tutti {

// Checks the algorithm's `outline` function against its plans. The rounds and
// the results of every rank must agree. Every rank must keep the claims of
// period, ring and number of transfers. OK if the function makes no
// outline. Errors: as PlannedOutline(); INVALID_ARGUMENT naming the first round
// that differs.
absl::Status CheckOutline(const Algorithm& algorithm,
                          const VerifyCase& request);

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_SIMULATE_OUTLINE_TESTING_H_
