#ifndef TUTTI_TOOLS_MEASURE_TIMED_RUN_H_
#define TUTTI_TOOLS_MEASURE_TIMED_RUN_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tutti/environment.h"
#include "tutti/executor.h"

namespace tutti {

// CollectiveExecutor::ExecuteAsync of some executor.
using ExecuteFn = absl::FunctionRef<void(CollectiveArgs, StatusCallback)>;

// Starts all calls, in order, from this thread and waits for them. The time
// from before the first start to the end of the last call: that of the slowest
// rank. Errors: those of the first call that failed. REQUIRES: there is a call.
absl::StatusOr<absl::Duration> TimedRun(ExecuteFn execute, Clock* clock,
                                        std::vector<CollectiveArgs> calls);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_TIMED_RUN_H_
