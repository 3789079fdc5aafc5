// The collectives of one pass over memory.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/status_macros.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/passes/gpu_local_pass.h"
#include "gpu/runtime/gpu_launch.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Outputs of the members that have one.
std::vector<std::byte*> OutputsOf(const GpuMembers& members) {
  const CollInstanceParams& instance = members.instance();
  std::vector<std::byte*> outputs;
  for (int rank = 0; rank < members.size(); ++rank) {
    if (!HasOutput(instance.type, rank, instance.root)) continue;
    outputs.push_back(members.output(rank));
  }
  return outputs;
}

// Copies the source's input to all outputs.
absl::StatusOr<GpuPlan> PlanBroadcast(const GpuMembers& members) {
  const int root = members.instance().root;
  GpuPlan plan;
  AppendCopies(members.input(root), OutputsOf(members),
               members.context(root).input.size_bytes(), &plan.launches);
  return plan;
}

// Copies every input to its place in all outputs, or in the root's.
absl::StatusOr<GpuPlan> PlanGather(const GpuMembers& members) {
  std::vector<std::byte*> places = OutputsOf(members);
  GpuPlan plan;
  for (int rank = 0; rank < members.size(); ++rank) {
    const size_t num_bytes = members.context(rank).input.size_bytes();
    if (num_bytes == 0) continue;
    AppendCopies(members.input(rank), places, num_bytes, &plan.launches);
    for (std::byte*& place : places) place += num_bytes;
  }
  return plan;
}

// Reduces with one kernel that reads all inputs and writes all outputs, however
// many there are.
absl::StatusOr<GpuPlan> PlanReduce(const GpuMembers& members) {
  const CollInstanceParams& instance = members.instance();
  const std::vector<std::byte*> outputs = OutputsOf(members);
  GpuReduction reduction = {
      .kind = instance.merge_op.kind(),
      .dtype = instance.dtype,
      .outputs = {outputs.begin(), outputs.end()},
      .num_elements = static_cast<size_t>(instance.shape.num_elements()),
      .divisor = instance.final_op.is_identity() ? 1 : members.size()};
  for (int rank = 0; rank < members.size(); ++rank) {
    reduction.inputs.push_back(members.input(rank));
  }
  GpuPlan plan;
  if (reduction.num_elements == 0) return plan;
  if (members.size() == 1 && instance.final_op.is_identity()) {
    AppendCopies(members.input(0), outputs,
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

ImplementationTraits GatherTraits() {
  ImplementationTraits traits =
      GpuLocalTraits("copies every input straight to all outputs, 8 at a time",
                     {CollectiveType::kAllGather, CollectiveType::kGather});
  traits.supports_uneven = true;
  return traits;
}

ImplementationTraits ReduceTraits() {
  ImplementationTraits traits =
      GpuLocalTraits("one pass over up to 8 members' memory, in rank order",
                     {CollectiveType::kAllReduce, CollectiveType::kReduce});
  traits.preserves_rank_order = true;
  traits.reduces_at_once = true;
  traits.why_not_ops = WhyNotOnGpu;
  return traits;
}

REGISTER_COLLECTIVE(
    GpuLocalBroadcast,
    Implemented<GpuLocalPlanned<PlanBroadcast>>(GpuLocalTraits(
        "copies the source's input straight to all outputs, 8 at a time",
        {CollectiveType::kBroadcast})));

REGISTER_COLLECTIVE(GpuLocalGather,
                    Implemented<GpuLocalPlanned<PlanGather>>(GatherTraits()));

REGISTER_COLLECTIVE(GpuLocalReduce,
                    Implemented<GpuLocalPlanned<PlanReduce>>(ReduceTraits()));

}  // namespace
}  // namespace tutti
