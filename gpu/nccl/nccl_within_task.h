#ifndef TUTTI_GPU_NCCL_NCCL_WITHIN_TASK_H_
#define TUTTI_GPU_NCCL_NCCL_WITHIN_TASK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/passes/gpu_meeting.h"
#include "gpu/passes/gpu_members.h"
#include "gpu/runtime/gpu_launch.h"
#include "schedule/chunk_map.h"
#include "schedule/engine/between_tasks.h"
#include "schedule/engine/hierarchical_run.h"
#include "schedule/engine/within_task.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"

namespace tutti {

// What all executions of an instance share in one process.
struct NcclThenPlan {
  // The first member's, whose steps wait for what lies before them on the
  // collective stream, and not also for the compute stream: that may hold work
  // that was put there after the call.
  std::unique_ptr<Device> first_device;

  std::unique_ptr<BetweenTasks> between;
};

// The communicator of a group's members in this process. Belongs to the group's
// resources. Thread-safe.
class TaskCommunicator {
 public:
  // Errors: as NcclRuntime::NewUniqueId(); that of the first call stays.
  absl::StatusOr<std::string> Id(NcclRuntime& nccl);
  const std::shared_ptr<NcclGroup>& group() const { return group_; }

 private:
  const std::shared_ptr<NcclGroup> group_ = std::make_shared<NcclGroup>();
  std::once_flag once_;
  absl::StatusOr<std::string> id_;  // Fixed by the first call.
};

// The level within a task that is NCCL among the GPUs of a process: a reduction
// to the first member before the level between, and a broadcast after it. A
// stage has ended once it is on the streams, and the execution here once these
// are past it. Kept by its own callbacks. Thread-safe once started.
//
// While a stage may wait for another process, or for a GPU that will never get
// there, the communicator and the GPUs are asked for errors every
// GpuPassEnd::kLookEvery: the first one ends the execution.
class NcclWithinTask final
    : public WithinTask,
      public std::enable_shared_from_this<NcclWithinTask> {
 public:
  // All members of this process have joined `meeting`. The plan outlives it.
  NcclWithinTask(GpuMeeting& meeting, const GpuMembers& members,
                 const NcclThenPlan& plan);
  NcclWithinTask(const NcclWithinTask&) = delete;
  NcclWithinTask& operator=(const NcclWithinTask&) = delete;

  // Runs the execution, and adjourns the meeting in the end. Once.
  void Start();

  // Called by the run.
  void Reduce(Chunk chunk, StatusCallback done) override;
  bool launches_between_tasks() const override { return false; }  // End() does.
  absl::Status BeginMeet(Chunk chunk, CollectiveContext& context) override;
  void Spread(Chunk chunk, StatusCallback done) override;
  void End() override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using RunPtr = std::shared_ptr<HierarchicalRun>;

  const CollectiveContext& first() const { return members_.context(0); }
  bool is_alone() const { return members_.size() == 1; }
  Clock& clock() const;
  absl::Status Prepare();
  NcclGroup::Options Options() const;

  void LookLater(const RunPtr& run) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status FindFault();

  absl::Status MarkReduced(int64_t index);

  // Has NCCL launch a call of each member, made from its place, once `before`
  // is on the first one's stream.
  void Launch(std::vector<GpuLaunch> before,
              absl::AnyInvocable<NcclCall(int place)> call,
              StatusCallback launched);
  NcclCall CallOf(int place, Range elements, NcclOp op) const;
  std::vector<GpuLaunch> FinalOpOn(Range elements) const;
  std::byte* Result(int place, Range elements) const;
  size_t BytesOf(int64_t num_elements) const;

  void Fail(const absl::Status& status);
  void OnPartOver(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void Adjourn(absl::Status status);

  GpuMeeting& meeting_;
  const GpuMembers members_;
  const NcclThenPlan& plan_;
  const std::shared_ptr<TaskCommunicator> communicator_;

  // Fixed by Prepare().
  std::string id_;
  std::vector<GpuEvent> ready_;                    // By place.
  std::vector<std::shared_ptr<GpuPassEnd>> ends_;  // By place.

  // By chunk: it is reduced, or the input is there, where there is one member.
  std::vector<OwnedGpuEvent> reduced_;

  Cancellation::WatchId watch_ = 0;

  Mutex mu_;
  int num_launches_ ABSL_GUARDED_BY(mu_) = 0;  // That NCCL began.
  int num_parts_ ABSL_GUARDED_BY(mu_) = 0;     // Not over.
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_WITHIN_TASK_H_
