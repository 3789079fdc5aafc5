#include <cstddef>

#include "absl/status/statusor.h"
#include "gpu/nccl/nccl_blocks.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/passes/gpu_members.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

NcclBlock InputBlock(const CollectiveContext& context) {
  return {.begin = const_cast<std::byte*>(context.input.data()),
          .num_elements = static_cast<size_t>(context.input.num_elements())};
}

// Plans a broadcast per block, all at once, for blocks of different sizes.
NcclPlan PlanUneven(const CollectiveContext& context) {
  NcclPlan plan;
  std::byte* next = OutputOf(context);
  for (int root = 0; root < context.params->group->size(); ++root) {
    const NcclBlock block = TakeBlock(context, root, root, &next);
    if (block.num_elements == 0) continue;
    plan.calls.push_back(
        {.op = NcclOp::kBroadcast,
         .input = root == context.rank() ? context.input.data() : nullptr,
         .output = block.begin,
         .num_elements = block.num_elements,
         .dtype = context.params->instance->dtype,
         .peer = root});
  }
  return plan;
}

NcclPlan PlanToRoot(const CollectiveContext& context) {
  const int root = context.params->instance->root;
  const NcclBlock mine = InputBlock(context);
  NcclPlan plan;
  AppendSend(context, root, mine, &plan);
  if (context.rank() != root) return plan;
  std::byte* next = OutputOf(context);
  for (int from = 0; from < context.params->group->size(); ++from) {
    const NcclBlock block = TakeBlock(context, from, root, &next);
    if (from == root) AppendOwn(context, mine, block, &plan);
    AppendRecv(context, from, block, &plan);
  }
  return plan;
}

absl::StatusOr<NcclPlan> PlanGather(const CollectiveContext& context) {
  const CollInstanceParams& instance = *context.params->instance;
  if (instance.type == CollectiveType::kGather) return PlanToRoot(context);
  if (!instance.rows.empty()) return PlanUneven(context);
  NcclPlan plan;
  const NcclBlock mine = InputBlock(context);
  if (mine.num_elements == 0) return plan;
  plan.calls = {{.op = NcclOp::kAllGather,
                 .input = mine.begin,
                 .output = OutputOf(context),
                 .num_elements = mine.num_elements,
                 .dtype = instance.dtype}};
  return plan;
}

class NcclGatherer : public NcclCollective {
 public:
  NcclGatherer() : NcclCollective(&PlanGather) {}
};

ImplementationTraits Traits() {
  ImplementationTraits traits = NcclTraits(
      "ncclAllGather, broadcasts where blocks differ, and sends to "
      "the root",
      {CollectiveType::kAllGather, CollectiveType::kGather});
  traits.supports_uneven = true;
  return traits;
}

REGISTER_COLLECTIVE(NcclGather, Implemented<NcclGatherer>(Traits()));

}  // namespace
}  // namespace tutti
