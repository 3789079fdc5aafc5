#include <utility>
#include <vector>

#include "gpu/passes/gpu_local_pass.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Copies the source's input to all outputs.
absl::StatusOr<GpuPlan> PlanBroadcast(const GpuMembers& members) {
  std::vector<std::byte*> outputs;
  for (int rank = 0; rank < members.size(); ++rank) {
    outputs.push_back(members.output(rank));
  }
  const int root = members.instance().root;
  GpuPlan plan;
  AppendCopies(members.input(root), outputs,
               members.context(root).input.size_bytes(), &plan.launches);
  return plan;
}

class GpuLocalBroadcaster : public GpuLocalCollective {
 public:
  GpuLocalBroadcaster() : GpuLocalCollective(&PlanBroadcast) {}
};

REGISTER_COLLECTIVE(
    GpuLocalBroadcast,
    Implemented<GpuLocalBroadcaster>(GpuLocalTraits(
        "copies the source's input straight to all outputs, 8 at a time",
        {CollectiveType::kBroadcast})));

}  // namespace
}  // namespace tutti
