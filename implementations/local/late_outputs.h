#ifndef TUTTI_IMPLEMENTATIONS_LOCAL_LATE_OUTPUTS_H_
#define TUTTI_IMPLEMENTATIONS_LOCAL_LATE_OUTPUTS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/executor/local_meeting.h"
#include "tutti/tensor.h"

namespace tutti {

// Makes the late outputs of all members that have a place for one. If every
// member has such a place, they all share one output, on the device of the
// first member. Else each of them gets a separate output. An output that all
// members shared in the last execution is used again. Errors: errors of
// Device::Allocate().
absl::Status MakeLateOutputs(absl::Span<const Attendee> members);

// Returns the tensor of the member's result. REQUIRES: MakeLateOutputs() was
// called.
inline const Tensor& OutputOf(const Attendee& member) {
  return member.context->result();
}

// Returns true if all members share one output. REQUIRES: MakeLateOutputs() was
// called.
bool ShareOutput(absl::Span<const Attendee> members);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_LOCAL_LATE_OUTPUTS_H_
