#include <cstddef>

#include "absl/status/statusor.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/nccl/nccl_reduce.h"
#include "gpu/passes/gpu_members.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

absl::StatusOr<NcclPlan> PlanReduceScatter(const CollectiveContext& context) {
  NcclPlan plan;
  AppendReduction(
      context,
      {.op = NcclOp::kReduceScatter,
       .input = context.input.data(),
       .output = OutputOf(context),
       .num_elements = static_cast<size_t>(context.output.num_elements())},
      &plan);
  return plan;
}

class NcclReduceScatterer : public NcclCollective {
 public:
  NcclReduceScatterer() : NcclCollective(&PlanReduceScatter) {}
};

// Same as NcclReduce.
ImplementationTraits Traits() {
  ImplementationTraits traits =
      NcclTraits("ncclReduceScatter", {CollectiveType::kReduceScatter});
  traits.determinism = Determinism::kNotGuaranteed;
  return traits;
}

REGISTER_COLLECTIVE(NcclReduceScatter,
                    Implemented<NcclReduceScatterer>(Traits()));

}  // namespace
}  // namespace tutti
