#include <utility>
#include <vector>

#include "gpu/passes/gpu_local_pass.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Copies every input to its place in all outputs, or in the root's.
absl::StatusOr<GpuPlan> PlanGather(const GpuMembers& members) {
  std::vector<std::byte*> places;
  for (int rank = 0; rank < members.size(); ++rank) {
    std::byte* const output = members.output(rank);
    if (output != nullptr) places.push_back(output);
  }
  GpuPlan plan;
  for (int rank = 0; rank < members.size(); ++rank) {
    const size_t num_bytes = members.context(rank).input.size_bytes();
    AppendCopies(members.input(rank), places, num_bytes, &plan.launches);
    for (std::byte*& place : places) place += num_bytes;
  }
  return plan;
}

class GpuLocalGatherer : public GpuLocalCollective {
 public:
  GpuLocalGatherer() : GpuLocalCollective(&PlanGather) {}
};

ImplementationTraits Traits() {
  ImplementationTraits traits =
      GpuLocalTraits("copies every input straight to all outputs, 8 at a time",
                     {CollectiveType::kAllGather, CollectiveType::kGather});
  traits.supports_uneven = true;
  return traits;
}

REGISTER_COLLECTIVE(GpuLocalGather, Implemented<GpuLocalGatherer>(Traits()));

}  // namespace
}  // namespace tutti
