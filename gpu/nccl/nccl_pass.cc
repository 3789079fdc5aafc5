#include "gpu/nccl/nccl_pass.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/nccl/nccl_agreement.h"
#include "gpu/nccl/nccl_group.h"
#include "gpu/nccl/nccl_order.h"
#include "gpu/nccl/runtime/nccl_keys.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/passes/gpu_meeting.h"
#include "gpu/runtime/gpu_launch.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// An execution in one process, from the arrival of its last member here to its
// end. Its callbacks keep it alive. Thread-safe once started.
class NcclPass : public std::enable_shared_from_this<NcclPass> {
 public:
  // REQUIRES: all members of this process have joined `meeting`.
  NcclPass(GpuMeeting& meeting, const GpuMembers& members,
           std::shared_ptr<NcclGroup> group)
      : meeting_(meeting), members_(members), group_(std::move(group)) {}

  NcclPass(const NcclPass&) = delete;
  NcclPass& operator=(const NcclPass&) = delete;

  // Runs the execution, and adjourns the meeting at the end. Call once.
  void Start(NcclPlanner planner) {
    absl::Status status = Prepare(planner);
    if (!status.ok()) {
      // Other processes may have launched.
      if (agreement_ != nullptr) group_->Break(status);
      return Adjourn(std::move(status));
    }
    watch_ = first().execution->cancellation.Watch(
        [group = group_, agreement = agreement_](const absl::Status& reason) {
          group->Break(reason);
          if (agreement != nullptr) agreement->Cancel(reason);
        });
    if (agreement_ != nullptr) agreement_->Start();
    const auto self = shared_from_this();
    group_->Add([this] { return Options(); },
                {.key = first().exec_key,
                 .begin =
                     [self](const NcclTicket& ticket,
                            absl::Span<const NcclComm> comms) {
                       return self->Begin(ticket, comms);
                     },
                 .launched =
                     [self](absl::Status launched) {
                       self->OnLaunched(std::move(launched));
                     }});
  }

 private:
  const CollectiveContext& first() const { return members_.context(0); }
  bool is_alone() const {
    return members_.size() == first().params->group->size();
  }
  absl::Status Prepare(NcclPlanner planner) {
    const auto& context = first();
    if (!is_alone()) agreement_ = std::make_shared<NcclAgreement>(context);
    ASSIGN_OR_RETURN(const auto id, NcclKeyOf(*context.params->group));
    ready_ = meeting_.TakeReady();
    Clock& clock = *context.executor->environment().clock;
    for (int place = 0; place < members_.size(); ++place) {
      ASSIGN_OR_RETURN(auto plan, planner(members_.context(place)));
      plans_.push_back(std::move(plan));
      CudaDevice& device = members_.device(place);
      ASSIGN_OR_RETURN(auto end,
                       GpuPassEnd::Create(device, device.nccl_stream(), clock));
      ends_.push_back(std::move(end));
    }
    return context.execution->cancellation.status();
  }

  NcclGroup::Options Options() const {
    const CollGroupParams& group = *first().params->group;
    NcclGroup::Options options = {
        .nccl = members_.device(0).nccl(),
        .id = group.runtime_details.communicator_key,
        .size = group.size(),
        .environment = first().executor->environment(),
        .cancellation = group.cancellation};
    for (int place = 0; place < members_.size(); ++place) {
      options.ranks.push_back({.rank = members_.context(place).rank(),
                               .gpu = members_.device(place).gpu()});
    }
    return options;
  }

  absl::StatusOr<std::vector<NcclPart>> Begin(
      const NcclTicket& ticket, absl::Span<const NcclComm> comms) {
    has_begun_ = true;
    if (agreement_ != nullptr) agreement_->Begin(ticket);
    std::vector<NcclPart> parts;
    for (int place = 0; place < members_.size(); ++place) {
      RETURN_IF_ERROR(PutBefore(place));
      parts.push_back({.comm = comms[static_cast<size_t>(place)],
                       .stream = members_.device(place).nccl_stream(),
                       .calls = std::move(plans_[place].calls)});
    }
    // From here on the streams may use the members' buffers.
    RETURN_IF_ERROR(first().execution->cancellation.status());
    return parts;
  }

  absl::Status PutBefore(int place) {
    CudaDevice& device = members_.device(place);
    RETURN_IF_ERROR(
        device.runtime().WaitForEvent(device.nccl_stream(), ready_[place]));
    return LaunchInOrder(device.runtime(), plans_[place].before,
                         device.nccl_stream());
  }

  void OnLaunched(absl::Status status) {
    if (!has_begun_) {
      Fail(std::move(status));
      return EndHere();
    }
    absl::Status first_error = status;
    for (int place = 0; place < members_.size(); ++place) {
      first_error.Update(PutAfter(place, status));
    }
    for (int place = 0; place < members_.size(); ++place) {
      const CollectiveContext& context = members_.context(place);
      context.executor->Launched(context);
    }
    const bool is_launched = first_error.ok();
    if (!is_launched) Fail(std::move(first_error));
    {
      MutexLock lock(&mu_);
      num_parts_ = members_.size();
    }
    // Copied: the end of the last part may release this object's members.
    const auto self = shared_from_this();
    const std::vector<GpuEvent> ready = ready_;
    const std::vector<std::shared_ptr<GpuPassEnd>> ends = ends_;
    for (size_t place = 0; place < ends.size(); ++place) {
      // A launch waits for `ready` on the same GPU anyway.
      std::vector<GpuEvent> awaited;
      if (!is_launched) awaited.push_back(ready[place]);
      ends[place]->CallWhenOver(std::move(awaited), [self](absl::Status over) {
        self->OnPartOver(std::move(over));
      });
    }
  }

  // Marks the end also after a failed launch: parts of it may be on the stream.
  absl::Status PutAfter(int place, absl::Status status) {
    CudaDevice& device = members_.device(place);
    if (status.ok()) {
      status = LaunchInOrder(device.runtime(), plans_[place].after,
                             device.nccl_stream());
    }
    const absl::Status marked = ends_[place]->Mark();
    status.Update(marked);
    if (marked.ok()) {
      status.Update(ends_[place]->OrderBefore(device.compute_stream()));
    }
    return status;
  }

  void OnPartOver(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    // Streams also go on after an abort.
    status.Update(group_->status());
    // Fails at once: streams of other GPUs may wait for this one until the
    // abort.
    if (!status.ok()) Fail(std::move(status));
    {
      MutexLock lock(&mu_);
      if (--num_parts_ > 0) return;
    }
    EndHere();
  }

  void Fail(absl::Status status) {
    first().executor->FailExecution(*first().execution, std::move(status));
  }

  void EndHere() {
    if (agreement_ == nullptr) return Finish();
    agreement_->EndHere([self = shared_from_this()] { self->Finish(); });
  }

  void Finish() {
    Cancellation& cancellation = first().execution->cancellation;
    cancellation.Unwatch(watch_);
    absl::Status status = cancellation.status();
    if (has_begun_) group_->Ended();
    Adjourn(std::move(status));
  }

  void Adjourn(absl::Status status) {
    // Freed first: the devices may be destroyed with the execution.
    plans_.clear();
    ends_.clear();
    meeting_.Adjourn(std::move(status));
  }

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

}  // namespace

void RunNcclPass(GpuMeeting& meeting, const GpuMembers& members,
                 std::shared_ptr<NcclGroup> group, NcclPlanner planner) {
  std::make_shared<NcclPass>(meeting, members, std::move(group))
      ->Start(planner);
}

}  // namespace tutti
