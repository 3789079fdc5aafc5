#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/choice/delegate_cost.h"
#include "framework/collective/collective_delegate.h"
#include "remote/mpi/messages/mpi_choice.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/peer_access.h"

namespace tutti {
namespace {

// Leaves collectives to MPI, by the transport of the processes.
class MpiImplementation final : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(
      CollectiveContext* context) override {
    CollectiveDelegate* const delegate = context->executor->peers().delegate();
    if (delegate == nullptr || delegate->name() != kMpiDelegate) {
      return absl::FailedPreconditionError(
          "MPI does not connect the processes of the group");
    }
    return delegate->Prepare(context);
  }
  void Run(const CollectiveContext& context, StatusCallback done) override {
    context.executor->peers().delegate()->Run(context, std::move(done));
  }
};

// Traits of collectives by MPI, which only recommends that results do not
// change from run to run.
ImplementationTraits MpiTraits(std::string summary,
                               std::vector<CollectiveType> collectives) {
  return {.summary = std::move(summary),
          .collectives = std::move(collectives),
          .device_types = {"CPU"},
          .delegate = std::string(kMpiDelegate),
          .supports_uneven = true,
          .determinism = Determinism::kNotGuaranteed,
          .cost_seconds = DelegateSeconds};
}

REGISTER_COLLECTIVE(
    MpiReduce, Implemented<MpiImplementation>(MpiTraits(
                   "MPI_Iallreduce and MPI_Ireduce, with our arithmetic",
                   {CollectiveType::kAllReduce, CollectiveType::kReduce})));
REGISTER_COLLECTIVE(MpiGather, Implemented<MpiImplementation>(
                                   MpiTraits("MPI_Iallgather, MPI_Iallgatherv",
                                             {CollectiveType::kAllGather})));
REGISTER_COLLECTIVE(MpiBroadcast,
                    Implemented<MpiImplementation>(
                        MpiTraits("MPI_Ibcast", {CollectiveType::kBroadcast})));
REGISTER_COLLECTIVE(MpiReduceScatter,
                    Implemented<MpiImplementation>(MpiTraits(
                        "MPI_Ireduce_scatter_block and MPI_Ireduce_scatter, "
                        "with our arithmetic",
                        {CollectiveType::kReduceScatter})));
REGISTER_COLLECTIVE(MpiScan,
                    Implemented<MpiImplementation>(MpiTraits(
                        "MPI_Iscan and MPI_Iexscan, with our arithmetic",
                        {CollectiveType::kScan, CollectiveType::kExscan})));
REGISTER_COLLECTIVE(MpiAllToAll, Implemented<MpiImplementation>(
                                     MpiTraits("MPI_Ialltoall, MPI_Ialltoallv",
                                               {CollectiveType::kAllToAll})));

}  // namespace
}  // namespace tutti
