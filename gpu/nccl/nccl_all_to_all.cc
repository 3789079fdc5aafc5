#include <cstddef>

#include "absl/status/statusor.h"
#include "framework/base/status_macros.h"
#include "gpu/nccl/nccl_blocks.h"
#include "gpu/nccl/nccl_collective.h"
#include "gpu/passes/gpu_members.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Plans sends of every rank to every rank, all at once.
absl::StatusOr<NcclPlan> PlanAllToAll(const CollectiveContext& context) {
  const int rank = context.rank();
  NcclPlan plan;
  ASSIGN_OR_RETURN(const auto input, SendableInput(context, &plan));
  std::byte* next_sent = input;
  std::byte* next_received = OutputOf(context);
  for (int peer = 0; peer < context.params->group->size(); ++peer) {
    const NcclBlock sent = TakeBlock(context, rank, peer, &next_sent);
    const NcclBlock received = TakeBlock(context, peer, rank, &next_received);
    if (peer == rank) AppendOwn(context, sent, received, &plan);
    AppendSend(context, peer, sent, &plan);
    AppendRecv(context, peer, received, &plan);
  }
  return plan;
}

class NcclAllToAller : public NcclCollective {
 public:
  NcclAllToAller() : NcclCollective(&PlanAllToAll) {}
};

ImplementationTraits Traits() {
  ImplementationTraits traits = NcclTraits("ncclSend and ncclRecv of all pairs",
                                           {CollectiveType::kAllToAll});
  traits.supports_uneven = true;
  return traits;
}

REGISTER_COLLECTIVE(NcclAllToAll, Implemented<NcclAllToAller>(Traits()));

}  // namespace
}  // namespace tutti
