#ifndef TUTTI_FRAMEWORK_EXECUTOR_MEMBER_BUFFERS_H_
#define TUTTI_FRAMEWORK_EXECUTOR_MEMBER_BUFFERS_H_

#include "absl/status/status.h"
#include "framework/executor/execution_table.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"

namespace tutti {

// Whether the segments are packed into one tensor before the run.
inline bool IsPacked(const CollectiveContext& context,
                     const ExecutionTable::Settled& settled) {
  return context.segments != nullptr && !settled.takes_segments;
}

// Checks the caller's input, output or segments, allocates an output that is
// not set, and puts all of it into `context`, which has its params and device.
// Takes input and segments out of `args`. Errors: INVALID_ARGUMENT naming the
// member; those of Device::Allocate().
absl::Status PrepareMemberBuffers(const ExecutionTable::Settled& settled,
                                  CollectiveArgs* args,
                                  CollectiveContext* context);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_MEMBER_BUFFERS_H_
