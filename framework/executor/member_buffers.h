#ifndef TUTTI_FRAMEWORK_EXECUTOR_MEMBER_BUFFERS_H_
#define TUTTI_FRAMEWORK_EXECUTOR_MEMBER_BUFFERS_H_

#include "absl/status/status.h"
#include "framework/executor/settled_facts.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"

namespace tutti {

// Returns whether the segments are packed into one tensor before the run.
inline bool IsPacked(const CollectiveContext& context,
                     const SettledFacts& settled) {
  return context.segments != nullptr && !settled.takes_segments;
}

// Checks the caller's input, output or segments, and allocates an unset output.
// Puts them all into `context`, which already has its params and device. Takes
// input and segments out of `args`. Errors: INVALID_ARGUMENT naming the member;
// the errors of Device::Allocate().
absl::Status PrepareMemberBuffers(const SettledFacts& settled,
                                  CollectiveArgs* args,
                                  CollectiveContext* context);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_EXECUTOR_MEMBER_BUFFERS_H_
