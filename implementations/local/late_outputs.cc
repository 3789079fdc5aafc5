#include "implementations/local/late_outputs.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

bool IsLate(const Attendee& member) {
  return member.context->late_output != nullptr;
}

absl::StatusOr<Tensor> MakeOutput(const CollectiveContext& context) {
  return context.device->Allocate(context.params->instance->dtype,
                                  context.params->output_shape);
}

bool HaveOne(absl::Span<const Attendee> members) {
  const Tensor& first = *members[0].context->late_output;
  return first.is_set() && absl::c_all_of(members, [&](const Attendee& member) {
           const Tensor& output = *member.context->late_output;
           return output.is_set() && output.data() == first.data();
         });
}

}  // namespace

absl::Status MakeLateOutputs(absl::Span<const Attendee> members) {
  if (absl::c_none_of(members, IsLate)) return absl::OkStatus();
  if (absl::c_all_of(members, IsLate)) {
    if (HaveOne(members)) return absl::OkStatus();
    ASSIGN_OR_RETURN(auto made, MakeOutput(*members[0].context));
    for (const Attendee& member : members) {
      *member.context->late_output = made;
    }
    return absl::OkStatus();
  }
  // Existing outputs may be shared with other members, and are replaced.
  for (const Attendee& member : members) {
    if (!IsLate(member)) continue;
    ASSIGN_OR_RETURN(*member.context->late_output, MakeOutput(*member.context));
  }
  return absl::OkStatus();
}

bool ShareOutput(absl::Span<const Attendee> members) {
  return members.size() > 1 && absl::c_all_of(members, IsLate);
}

}  // namespace tutti
