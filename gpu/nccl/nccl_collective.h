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
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Reason why NCCL cannot reduce elements of `dtype` with these ops
// (ImplementationTraits::why_not_ops).
std::string WhyNotWithNccl(DType dtype, const MergeOp& merge_op,
                           const FinalOp& final_op);

// Checks that NCCL's collectives can run on this device. Errors:
// INVALID_ARGUMENT for a device that is no CudaDevice; FAILED_PRECONDITION for
// a device without NCCL.
absl::Status CheckHasNccl(const CollectiveContext& context);

// Collective of NCCL among GPU devices of any number of processes, each device
// on a separate GPU:
//
//   compute stream    .. input .|.                  .|.. consumer ..
//                                \                  /
//   NCCL stream                   kernels, NCCL, kernels              of each
//
// The last member of a process to call launches the calls of all members of the
// process at once. Each NCCL stream waits for the work that the member's
// compute stream held when that member called. Work put on a compute stream
// after the launch waits for the execution.
//
// `done` runs when the streams of this process have passed the execution, and
// all other processes have reported the same (NcclAgreement). A failure ends
// the group's communicator (NcclGroup) if it comes after the last member here
// has called. With several processes it does so after any member's call.
class NcclCollective : public CollectiveImplementationInterface {
 public:
  explicit NcclCollective(NcclPlanner planner) : planner_(planner) {}

  // Never fails: see AddNcclKey().
  absl::Status InitializeCollectiveGroupRuntimeDetails(
      CollGroupParams* group) override;

  // Errors: INVALID_ARGUMENT for a device that is no CudaDevice.
  // FAILED_PRECONDITION for a device without NCCL, or without a valid key of
  // the leader; no leader chooses these.
  absl::Status InitializeCollectiveContext(CollectiveContext* context) override;

  // Errors: from NCCL and the GPU runtime; FAILED_PRECONDITION, naming launches
  // and ranks, if processes launch in different orders.
  void Run(const CollectiveContext& context, StatusCallback done) override;

 private:
  const NcclPlanner planner_;
};

// The collective of a planner.
template <NcclPlanner kPlanner>
class NcclPlanned : public NcclCollective {
 public:
  NcclPlanned() : NcclCollective(kPlanner) {}
};

// Traits shared by NCCL's collectives. They cost more than a pass of one GPU
// within a process, and less than collectives that send.
ImplementationTraits NcclTraits(std::string summary,
                                std::vector<CollectiveType> collectives);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_COLLECTIVE_H_
