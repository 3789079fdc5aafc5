#ifndef TUTTI_GPU_NCCL_NCCL_INTRA_TASK_LEVEL_H_
#define TUTTI_GPU_NCCL_NCCL_INTRA_TASK_LEVEL_H_

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
#include "gpu/runtime/gpu_launch.h"
#include "schedule/chunk_map.h"
#include "schedule/engine/hierarchical_run.h"
#include "schedule/engine/inter_task_level.h"
#include "schedule/engine/intra_task_level.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"

namespace tutti {

// State shared by all executions of an instance in this process.
struct NcclThenPlan {
  // Device of the first member, for the steps. They wait for earlier work of
  // the collective stream, but not for the compute stream: it may hold work
  // that was put there after the call.
  std::unique_ptr<Device> first_device;

  std::unique_ptr<InterTaskLevel> between;
};

// Communicator of a group's members in this process. Belongs to the group's
// resources. Thread-safe.
class TaskCommunicator {
 public:
  // Errors: as NcclRuntime::NewUniqueId(). The result of the first call stays.
  absl::StatusOr<std::string> Id(NcclRuntime& nccl);
  const std::shared_ptr<NcclGroup>& group() const { return group_; }

 private:
  const std::shared_ptr<NcclGroup> group_ = std::make_shared<NcclGroup>();
  std::once_flag once_;
  absl::StatusOr<std::string> id_;  // Fixed by the first call.
};

// Level within a task by NCCL, among the GPUs of a process: a reduction to the
// first member before the level between tasks, and a broadcast after it. A
// stage has ended once it is on the streams. The execution here has ended once
// the streams have passed it. Callbacks keep the object alive. Thread-safe once
// started.
//
// A stage may wait for another process, or for a GPU that never gets there.
// Meanwhile the communicator and the GPUs are checked for errors every
// GpuPassEnd::kLookEvery. The first error ends the execution.
class NcclIntraTaskLevel final
    : public IntraTaskLevel,
      public std::enable_shared_from_this<NcclIntraTaskLevel> {
 public:
  // REQUIRES: all members of this process have joined `meeting`. The plan
  // outlives this object.
  NcclIntraTaskLevel(GpuMeeting& meeting, const GpuMembers& members,
                     const NcclThenPlan& plan);
  NcclIntraTaskLevel(const NcclIntraTaskLevel&) = delete;
  NcclIntraTaskLevel& operator=(const NcclIntraTaskLevel&) = delete;

  // Runs the execution, and adjourns the meeting at the end. Call once.
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

  // Lets NCCL launch `call(place)` for each member, after `before` is on the
  // first member's stream.
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
  std::vector<GpuEvent> ready_;                    // Indexed by place.
  std::vector<std::shared_ptr<GpuPassEnd>> ends_;  // Indexed by place.

  // Indexed by chunk. Done when the chunk is reduced; with a single member,
  // when the input is ready.
  std::vector<OwnedGpuEvent> reduced_;

  Cancellation::WatchId watch_ = 0;

  Mutex mu_;
  int num_launches_ ABSL_GUARDED_BY(mu_) = 0;  // Begun by NCCL.
  int num_parts_ ABSL_GUARDED_BY(mu_) = 0;     // Parts under way.
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_INTRA_TASK_LEVEL_H_
