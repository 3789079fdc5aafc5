#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "framework/base/status_macros.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/passes/gpu_local_pass.h"
#include "gpu/passes/gpu_members.h"
#include "gpu/runtime/gpu_launch.h"
#include "gpu/runtime/split_reduction.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Reduction over all members, however many there are.
GpuReduction ReductionOf(const GpuMembers& members) {
  const CollInstanceParams& instance = members.instance();
  GpuReduction reduction = {
      .kind = instance.merge_op.kind(),
      .dtype = instance.dtype,
      .num_elements = static_cast<size_t>(instance.shape.num_elements()),
      .divisor = instance.final_op.is_identity() ? 1 : members.size()};
  for (int rank = 0; rank < members.size(); ++rank) {
    reduction.inputs.push_back(members.input(rank));
    if (!HasOutput(instance.type, rank, instance.root)) continue;
    reduction.outputs.push_back(members.output(rank));
  }
  return reduction;
}

absl::StatusOr<GpuPlan> PlanReduce(const GpuMembers& members) {
  const CollInstanceParams& instance = members.instance();
  const GpuReduction reduction = ReductionOf(members);
  GpuPlan plan;
  if (reduction.num_elements == 0) return plan;
  if (members.size() == 1 && instance.final_op.is_identity()) {
    AppendCopies(members.input(0), {members.output(0)},
                 reduction.num_elements * SizeOf(reduction.dtype),
                 &plan.launches);
    return plan;
  }
  if (NeedsScratch(reduction)) {
    ASSIGN_OR_RETURN(plan.scratch, members.device(0).Allocate(instance.dtype,
                                                              instance.shape));
  }
  plan.launches = SplitReduction(reduction, plan.scratch.mutable_data());
  return plan;
}

// Reduces with one kernel that reads all inputs and writes all outputs. The
// last member to arrive launches it. All members are in this process, and the
// first one reaches their memory.
class GpuLocalReducer : public GpuLocalCollective {
 public:
  GpuLocalReducer() : GpuLocalCollective(&PlanReduce) {}
};

ImplementationTraits Traits() {
  ImplementationTraits traits =
      GpuLocalTraits("one pass over up to 8 members' memory, in rank order",
                     {CollectiveType::kAllReduce, CollectiveType::kReduce});
  traits.preserves_rank_order = true;
  traits.why_not_ops = WhyNotOnGpu;
  return traits;
}

REGISTER_COLLECTIVE(GpuLocalReduce, Implemented<GpuLocalReducer>(Traits()));

}  // namespace
}  // namespace tutti
