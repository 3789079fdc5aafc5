#include <cstddef>

#include "absl/status/statusor.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/passes/gpu_members.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

absl::StatusOr<NcclPlan> PlanBroadcast(const CollectiveContext& context) {
  const CollInstanceParams& instance = *context.params->instance;
  NcclPlan plan;
  const auto num_elements = static_cast<size_t>(instance.shape.num_elements());
  if (num_elements == 0) return plan;
  plan.calls = {{.op = NcclOp::kBroadcast,
                 .input = context.input.data(),
                 .output = OutputOf(context),
                 .num_elements = num_elements,
                 .dtype = instance.dtype,
                 .peer = instance.root}};
  return plan;
}

class NcclBroadcaster : public NcclCollective {
 public:
  NcclBroadcaster() : NcclCollective(&PlanBroadcast) {}
};

REGISTER_COLLECTIVE(NcclBroadcast,
                    Implemented<NcclBroadcaster>(NcclTraits(
                        "ncclBroadcast", {CollectiveType::kBroadcast})));

}  // namespace
}  // namespace tutti
