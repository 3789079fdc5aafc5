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

// Starts all calls, in order, on this thread and waits for them. Returns the
// time from before the first start to the end of the last call, which is the
// time of the slowest rank. Errors: the error of the first call that failed.
// REQUIRES: `calls` is not empty.
absl::StatusOr<absl::Duration> TimedRun(ExecuteFn execute, Clock* clock,
                                        std::vector<CollectiveArgs> calls);

}  // namespace tutti

#endif  // TUTTI_TOOLS_MEASURE_TIMED_RUN_H_
