#ifndef TUTTI_GPU_NCCL_NCCL_PASS_H_
#define TUTTI_GPU_NCCL_NCCL_PASS_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/nccl/nccl_agreement.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_order.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/passes/gpu_meeting.h"
#include "gpu/runtime/gpu_launch.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// Work of a member on its device's NCCL stream: kernels of ours, then all calls
// of NCCL at once, then kernels of ours.
struct NcclPlan {
  std::vector<GpuLaunch> before;
  std::vector<NcclCall> calls;
  std::vector<GpuLaunch> after;
  Tensor scratch;  // On the member's device; kept to the end.
};

// Plans the work of a member. An error ends the execution.
using NcclPlanner =
    absl::StatusOr<NcclPlan> (*)(const CollectiveContext& context);

// An execution in one process, from the arrival of its last member here to its
// end. Its callbacks keep it alive. Thread-safe once started.
class NcclPass : public std::enable_shared_from_this<NcclPass> {
 public:
  // REQUIRES: all members of this process have joined `meeting`.
  NcclPass(GpuMeeting& meeting, const GpuMembers& members,
           std::shared_ptr<NcclGroup> group);
  NcclPass(const NcclPass&) = delete;
  NcclPass& operator=(const NcclPass&) = delete;

  // Runs the execution, and adjourns the meeting at the end. Call once.
  void Start(NcclPlanner planner);

 private:
  const CollectiveContext& first() const { return members_.context(0); }
  bool is_alone() const {
    return members_.size() == first().params->group->size();
  }
  absl::Status Prepare(NcclPlanner planner);
  NcclGroup::Options Options() const;

  absl::StatusOr<std::vector<NcclPart>> Begin(const NcclTicket& ticket,
                                              absl::Span<const NcclComm> comms);
  absl::Status PutBefore(int place);
  void OnLaunched(absl::Status status);
  absl::Status PutAfter(int place, absl::Status status);
  void OnPartOver(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void Fail(absl::Status status);
  void EndHere();
  void Finish();
  void Adjourn(absl::Status status);

  GpuMeeting& meeting_;
  const GpuMembers members_;
  const std::shared_ptr<NcclGroup> group_;

  // Indexed by place. Fixed by Prepare().
  std::vector<GpuEvent> ready_;
  std::vector<NcclPlan> plans_;
  std::vector<std::shared_ptr<GpuPassEnd>> ends_;
  std::shared_ptr<NcclAgreement> agreement_;  // Null if all members are here.
  Cancellation::WatchId watch_ = 0;
  bool has_begun_ = false;  // Owned by the launching thread.

  Mutex mu_;
  int num_parts_ ABSL_GUARDED_BY(mu_) = 0;  // Parts under way.
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_PASS_H_
