#include "gpu/nccl/nccl_reduce.h"

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/passes/gpu_members.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

absl::StatusOr<NcclPlan> PlanReduce(const CollectiveContext& context) {
  const CollInstanceParams& instance = *context.params->instance;
  NcclPlan plan;
  AppendReduction(
      context,
      {.op = instance.type == CollectiveType::kReduce ? NcclOp::kReduce
                                                      : NcclOp::kAllReduce,
       .input = context.input.data(),
       .output = OutputOf(context),
       .num_elements = static_cast<size_t>(instance.shape.num_elements()),
       .peer = instance.type == CollectiveType::kReduce ? instance.root : 0},
      &plan);
  return plan;
}

class NcclReducer : public NcclCollective {
 public:
  NcclReducer() : NcclCollective(&PlanReduce) {}
};

// NCCL's floating sums may differ in bits between runs.
ImplementationTraits Traits() {
  ImplementationTraits traits =
      NcclTraits("ncclAllReduce and ncclReduce",
                 {CollectiveType::kAllReduce, CollectiveType::kReduce});
  traits.determinism = Determinism::kNotGuaranteed;
  return traits;
}

REGISTER_COLLECTIVE(NcclReduce, Implemented<NcclReducer>(Traits()));

// The name in TensorFlow's collective runtime.
REGISTER_COLLECTIVE_ALIAS(NcclReducer, NcclReduce);

}  // namespace

bool IsAverageExact(DType dtype, int num_ranks) {
  return VisitDType(dtype, [num_ranks]<typename Element>(Element) {
    if constexpr (kIsInteger<Element>) {
      return std::in_range<Element>(num_ranks);
    } else {
      return false;
    }
  });
}

void AppendReduction(const CollectiveContext& context, NcclCall call,
                     NcclPlan* plan) {
  if (call.num_elements == 0) return;
  const CollInstanceParams& instance = *context.params->instance;
  const int num_ranks = context.params->group->size();
  call.dtype = instance.dtype;
  call.kind = instance.merge_op.kind();
  const bool divides = !instance.final_op.is_identity() && num_ranks > 1;
  call.is_average = divides && call.kind == ReductionKind::kSum &&
                    IsAverageExact(call.dtype, num_ranks);
  plan->calls.push_back(call);
  if (!divides || call.is_average || call.output == nullptr) return;
  plan->after.emplace_back(GpuReduction{.kind = ReductionKind::kSum,
                                        .dtype = call.dtype,
                                        .inputs = {call.output},
                                        .outputs = {call.output},
                                        .num_elements = call.num_elements,
                                        .divisor = num_ranks});
}

}  // namespace tutti
