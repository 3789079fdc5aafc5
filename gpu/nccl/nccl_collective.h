#ifndef TUTTI_GPU_NCCL_NCCL_COLLECTIVE_H_
#define TUTTI_GPU_NCCL_NCCL_COLLECTIVE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gpu/nccl/nccl_pass.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {

// A collective of NCCL, among GPU devices of any number of processes, each on a
// GPU of its own:
//
//   compute stream    .. input .|.                  .|.. consumer ..
//                                \                  /
//   NCCL stream                   kernels, NCCL, kernels              of each
//
// The last member of a process to call has the calls of all members there
// launched at once. Each NCCL stream waits for what the member's compute stream
// held when that member called. What is put on a compute stream once the
// execution has launched here waits for it.
//
// `done` runs when the streams of this process are past it, and all processes
// have said that theirs are (NcclAgreement). An execution that fails after its
// last member here has called, or after any has where there are more processes,
// ends the group's communicator (NcclGroup).
class NcclCollective : public CollectiveImplementationInterface {
 public:
  explicit NcclCollective(NcclPlanner planner) : planner_(planner) {}

  // Never fails: see AddNcclKey().
  absl::Status InitializeCollectiveGroupRuntimeDetails(
      CollGroupParams* group) override;

  // Errors: INVALID_ARGUMENT for a device that is no CudaDevice;
  // FAILED_PRECONDITION for one without NCCL, or if the leader's key is none,
  // either of which no leader chooses.
  absl::Status InitializeCollectiveContext(CollectiveContext* context) override;

  // Errors: those of NCCL and of the GPU runtime; FAILED_PRECONDITION naming
  // launches and ranks where processes launch in different orders.
  void Run(const CollectiveContext& context, StatusCallback done) override;

 private:
  const NcclPlanner planner_;
};

// What they have in common. They cost more than what one GPU does within a
// process, and less than what sends.
ImplementationTraits NcclTraits(std::string summary,
                                std::vector<CollectiveType> collectives);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_COLLECTIVE_H_
