#ifndef TUTTI_GPU_NCCL_NCCL_THEN_PASS_H_
#define TUTTI_GPU_NCCL_NCCL_THEN_PASS_H_

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
#include "framework/cancellation.h"
#include "framework/collective_context.h"
#include "framework/device.h"
#include "framework/environment.h"
#include "framework/mutex.h"
#include "gpu/gpu_launch.h"
#include "gpu/gpu_meeting.h"
#include "gpu/gpu_members.h"
#include "gpu/gpu_pass_end.h"
#include "gpu/gpu_runtime.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_runtime.h"
#include "schedule/between_tasks.h"
#include "schedule/chunk_map.h"
#include "schedule/chunk_pipeline.h"

namespace tutti {

// What all executions of an instance share in one process.
struct NcclThenPlan {
  // The first member's, whose steps wait for what lies before them on the
  // collective stream, and not also for the compute stream: that may hold work
  // that was put there after the call.
  std::unique_ptr<Device> first_device;

  std::unique_ptr<const ReductionBetweenTasks> between;
};

// The communicator of a group's members in this process. Belongs to the group's
// resources. Thread-safe.
class NcclWithinProcess {
 public:
  // Errors: as NcclRuntime::NewUniqueId(); that of the first call stays.
  absl::StatusOr<std::string> Id(NcclRuntime& nccl);
  const std::shared_ptr<NcclGroup>& group() const { return group_; }

 private:
  const std::shared_ptr<NcclGroup> group_ = std::make_shared<NcclGroup>();
  std::once_flag once_;
  absl::StatusOr<std::string> id_;  // Fixed by the first call.
};

// One execution in one process, from the arrival of its last member here to the
// end. Kept by its own callbacks. Thread-safe once started.
//
// While a stage may wait for another process, or for a GPU that will never get
// there, the communicator and the GPUs are asked for errors every
// GpuPassEnd::kLookEvery: the first one ends the execution.
class NcclThenPass : public std::enable_shared_from_this<NcclThenPass> {
 public:
  // All members of this process have joined `meeting`. The plan outlives it.
  NcclThenPass(GpuMeeting& meeting, const GpuMembers& members,
               const NcclThenPlan& plan);
  NcclThenPass(const NcclThenPass&) = delete;
  NcclThenPass& operator=(const NcclThenPass&) = delete;

  // Adjourns the meeting in the end. Once.
  void Start();

 private:
  // What a chunk needs to the end.
  struct Stages {
    OwnedGpuEvent reduced;  // Or the input is there, where there is one member.
    std::unique_ptr<CollectiveContext> between;
  };

  const CollectiveContext& first() const { return members_.context(0); }
  bool is_alone() const { return members_.size() == 1; }
  Clock& clock() const;
  absl::Status Prepare();
  NcclGroup::Options Options() const;

  // Starts what can start, or ends.
  void GoOn();

  void LookLater() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Look() ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status FindFault();

  // The three stages of a chunk. Each ends with the function behind it.
  void Reduce(int64_t index);
  void OnReduced(int64_t index, absl::Status status);
  void Meet(int64_t index);
  void OnMet(int64_t index, absl::Status status);
  void Spread(int64_t index);
  void OnSpread(absl::Status status);

  // Has NCCL launch a call of each member, made from its place, once `before`
  // is on the first one's stream.
  void Launch(std::vector<GpuLaunch> before,
              absl::AnyInvocable<NcclCall(int place)> call,
              StatusCallback launched);
  NcclCall CallOf(int place, Range chunk, NcclOp op) const;
  std::vector<GpuLaunch> FinalOpOn(Range chunk) const;
  std::byte* Result(int place, Range chunk) const;
  size_t BytesOf(int64_t num_elements) const;

  void Fail(const absl::Status& status);
  void End();
  void OnPartOver(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);
  void Adjourn(absl::Status status);

  GpuMeeting& meeting_;
  const GpuMembers members_;
  const NcclThenPlan& plan_;
  const std::shared_ptr<NcclWithinProcess> nccl_;

  // Fixed by Prepare().
  std::string id_;
  std::vector<GpuEvent> ready_;                    // By place.
  std::vector<std::shared_ptr<GpuPassEnd>> ends_;  // By place.

  std::vector<Stages> stages_;  // By chunk.
  ChunkPipeline pipeline_;      // The members may be gone when it has ended.

  Cancellation::WatchId watch_ = 0;

  Mutex mu_;
  int num_launches_ ABSL_GUARDED_BY(mu_) = 0;  // That NCCL began.
  int num_parts_ ABSL_GUARDED_BY(mu_) = 0;     // Not over.
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_THEN_PASS_H_
