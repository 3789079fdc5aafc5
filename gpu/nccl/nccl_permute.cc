#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/base/status_macros.h"
#include "gpu/nccl/nccl_blocks.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/passes/gpu_members.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

absl::StatusOr<NcclPlan> PlanPermute(const CollectiveContext& context) {
  const int rank = context.rank();
  const std::vector<int>& targets = context.params->instance->permutation;
  const int to = targets[rank];
  const int from = static_cast<int>(
      std::find(targets.begin(), targets.end(), rank) - targets.begin());
  NcclPlan plan;
  ASSIGN_OR_RETURN(const auto input, SendableInput(context, &plan));
  const auto num_elements = static_cast<size_t>(context.input.num_elements());
  const NcclBlock sent = {input, num_elements};
  const NcclBlock received = {OutputOf(context), num_elements};
  if (to == rank) AppendOwn(context, sent, received, &plan);
  AppendSend(context, to, sent, &plan);
  AppendRecv(context, from, received, &plan);
  return plan;
}

class NcclPermuter : public NcclCollective {
 public:
  NcclPermuter() : NcclCollective(&PlanPermute) {}
};

REGISTER_COLLECTIVE(NcclPermute, Implemented<NcclPermuter>(NcclTraits(
                                     "ncclSend to the target and ncclRecv",
                                     {CollectiveType::kPermute})));

}  // namespace
}  // namespace tutti
