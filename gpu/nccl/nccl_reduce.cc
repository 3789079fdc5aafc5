#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/passes/gpu_meeting.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Plans a reduction with the instance's final op: our kernel divides the
// output. NCCL's own average multiplies by the rounded inverse before it adds.
// `call` has op, buffers, number and peer.
NcclPlan PlanOf(const CollectiveContext& context, NcclCall call) {
  NcclPlan plan;
  if (call.num_elements == 0) return plan;
  const CollInstanceParams& instance = *context.params->instance;
  const int num_ranks = context.params->group->size();
  call.input = context.input.data();
  call.output = OutputOf(context);
  call.dtype = instance.dtype;
  call.kind = instance.merge_op.kind();
  const bool divides = !instance.final_op.is_identity() && num_ranks > 1;
  plan.calls.push_back(call);
  if (!divides || call.output == nullptr) return plan;
  plan.after.emplace_back(GpuReduction{.kind = ReductionKind::kSum,
                                       .dtype = call.dtype,
                                       .inputs = {call.output},
                                       .outputs = {call.output},
                                       .num_elements = call.num_elements,
                                       .divisor = num_ranks});
  return plan;
}

absl::StatusOr<NcclPlan> PlanReduce(const CollectiveContext& context) {
  const CollInstanceParams& instance = *context.params->instance;
  const bool is_to_root = instance.type == CollectiveType::kReduce;
  return PlanOf(
      context,
      {.op = is_to_root ? NcclOp::kReduce : NcclOp::kAllReduce,
       .num_elements = static_cast<size_t>(instance.shape.num_elements()),
       .peer = is_to_root ? instance.root : 0});
}

absl::StatusOr<NcclPlan> PlanReduceScatter(const CollectiveContext& context) {
  return PlanOf(
      context,
      {.op = NcclOp::kReduceScatter,
       .num_elements = static_cast<size_t>(context.output.num_elements())});
}

// NCCL's floating sums may differ in bits between runs.
ImplementationTraits SumTraits(std::string summary,
                               std::vector<CollectiveType> collectives) {
  ImplementationTraits traits =
      NcclTraits(std::move(summary), std::move(collectives));
  traits.determinism = Determinism::kNotGuaranteed;
  return traits;
}

REGISTER_COLLECTIVE(NcclReduce, Implemented<NcclPlanned<PlanReduce>>(
                                    SumTraits("ncclAllReduce and ncclReduce",
                                              {CollectiveType::kAllReduce,
                                               CollectiveType::kReduce})));

// The name in TensorFlow's collective runtime.
REGISTER_COLLECTIVE_ALIAS(NcclReducer, NcclReduce);

REGISTER_COLLECTIVE(NcclReduceScatter,
                    Implemented<NcclPlanned<PlanReduceScatter>>(
                        SumTraits("ncclReduceScatter",
                                  {CollectiveType::kReduceScatter})));

}  // namespace

}  // namespace tutti
