#ifndef TUTTI_IMPLEMENTATIONS_LOCAL_LATE_OUTPUTS_H_
#define TUTTI_IMPLEMENTATIONS_LOCAL_LATE_OUTPUTS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/executor/local_meeting.h"
#include "tutti/tensor.h"

namespace tutti {

// Makes the outputs of those whose context has a place for a late one: one for
// all, on the device of the first, if every member has such a place; else each
// its own. What all had in common at the last execution is taken again. Errors:
// those of Device::Allocate().
absl::Status MakeLateOutputs(absl::Span<const Attendee> members);

// Where the member's result goes. REQUIRES: the late outputs are made.
inline const Tensor& OutputOf(const Attendee& member) {
  return member.context->result();
}

// Whether all members have one output. REQUIRES: as above.
bool ShareOutput(absl::Span<const Attendee> members);

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_LOCAL_LATE_OUTPUTS_H_
