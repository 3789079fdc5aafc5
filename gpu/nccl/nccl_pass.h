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
#include "gpu/passes/gpu_members.h"
#include "gpu/runtime/gpu_launch.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// What one member puts on its device's NCCL stream: kernels of ours, the
// calls of NCCL, all at once, and kernels again.
struct NcclPlan {
  std::vector<GpuLaunch> before;
  std::vector<NcclCall> calls;
  std::vector<GpuLaunch> after;
  Tensor scratch;  // Of the member's device; kept to the end.
};

// Errors end the execution.
using NcclPlanner =
    absl::StatusOr<NcclPlan> (*)(const CollectiveContext& context);

// One execution in one process, from the arrival of its last member here to the
// end. Kept by its own callbacks. Thread-safe once started.
class NcclPass : public std::enable_shared_from_this<NcclPass> {
 public:
  // All members of this process have joined `meeting`.
  NcclPass(GpuMeeting& meeting, const GpuMembers& members,
           std::shared_ptr<NcclGroup> group);
  NcclPass(const NcclPass&) = delete;
  NcclPass& operator=(const NcclPass&) = delete;

  // Adjourns the meeting in the end. Once.
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

  // Of each member, by place. Fixed by Prepare().
  std::vector<GpuEvent> ready_;
  std::vector<NcclPlan> plans_;
  std::vector<std::shared_ptr<GpuPassEnd>> ends_;
  std::shared_ptr<NcclAgreement> agreement_;  // Null if all members are here.
  Cancellation::WatchId watch_ = 0;
  bool has_begun_ = false;  // Of who runs the launch.

  Mutex mu_;
  int num_parts_ ABSL_GUARDED_BY(mu_) = 0;  // Not over.
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_PASS_H_
