#include "gpu/nccl/nccl_intra_task_level.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "framework/collective/group_resources.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/kernels/gpu_reduction.h"
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
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Communicator of a group's members in this process. Belongs to the group's
// resources. Thread-safe.
class TaskCommunicator {
 public:
  // Errors: as NcclRuntime::NewUniqueId(). The result of the first call stays.
  absl::StatusOr<std::string> Id(NcclRuntime& nccl) {
    std::call_once(once_, [&] { id_ = nccl.NewUniqueId(); });
    return id_;
  }

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
                     const NcclThenPlan& plan)
      : meeting_(meeting),
        members_(members),
        plan_(plan),
        communicator_(
            first().params->group->resources->GetOrCreate<TaskCommunicator>()) {
  }

  NcclIntraTaskLevel(const NcclIntraTaskLevel&) = delete;
  NcclIntraTaskLevel& operator=(const NcclIntraTaskLevel&) = delete;

  // Runs the execution, and adjourns the meeting at the end. Call once.
  void Start() {
    absl::Status status = Prepare();
    if (!status.ok()) return Adjourn(std::move(status));
    if (!is_alone()) {
      watch_ = first().execution->cancellation.Watch(
          [group = communicator_->group()](const absl::Status& reason) {
            group->Break(reason);
          });
    }
    const auto run = std::make_shared<HierarchicalRun>(shared_from_this(),
                                                       *plan_.between, first());
    LookLater(run);
    run->Start();
  }

  // Called by the run.
  void Reduce(Chunk chunk, StatusCallback done) override {
    if (is_alone()) return std::move(done)(MarkReduced(chunk.index));
    Launch(
        {},
        [this, elements = chunk.elements](int place) {
          return CallOf(place, elements, NcclOp::kReduce);
        },
        [self = shared_from_this(), index = chunk.index,
         done = std::move(done)](absl::Status status) mutable {
          if (status.ok()) status = self->MarkReduced(index);
          std::move(done)(std::move(status));
        });
  }

  bool launches_between_tasks() const override { return false; }  // End() does.
  //
  // Reduces in the first member's output; a single member reduces from its
  // input.
  absl::Status BeginMeet(Chunk chunk, CollectiveContext& context) override {
    context.device = plan_.first_device.get();
    context.input = is_alone() ? first().input : first().output;
    context.output = first().output;
    // Waits only for this chunk, not for later calls of NCCL, e.g. of the chunk
    // before.
    CudaDevice& device = members_.device(0);
    return device.runtime().WaitForEvent(
        device.collective_stream(),
        reduced_[static_cast<size_t>(chunk.index)].get());
  }

  void Spread(Chunk chunk, StatusCallback done) override {
    if (is_alone()) {
      CudaDevice& device = members_.device(0);
      return std::move(done)(LaunchInOrder(
          device.runtime(), FinalOpOn(chunk.elements), device.nccl_stream()));
    }
    Launch(
        FinalOpOn(chunk.elements),
        [this, elements = chunk.elements](int place) {
          return CallOf(place, elements, NcclOp::kBroadcast);
        },
        std::move(done));
  }

  // Called when nothing more is put on the streams.
  void End() override ABSL_LOCKS_EXCLUDED(mu_) {
    {
      MutexLock lock(&mu_);
      num_parts_ = members_.size();
      clock().Cancel(alarm_);  // The ends now look for errors.
    }
    for (int place = 0; place < members_.size(); ++place) {
      GpuPassEnd& end = *ends_[static_cast<size_t>(place)];
      absl::Status status = end.Mark();
      if (status.ok()) {
        status = end.OrderBefore(members_.device(place).compute_stream());
      }
      if (!status.ok()) Fail(status);
    }
    for (int place = 0; place < members_.size(); ++place) {
      first().executor->Launched(members_.context(place));
    }
    const std::vector<std::shared_ptr<GpuPassEnd>> ends = ends_;
    const std::vector<GpuEvent> ready = ready_;
    for (size_t place = 0; place < ends.size(); ++place) {
      ends[place]->CallWhenOver({ready[place]},
                                [self = shared_from_this()](absl::Status over) {
                                  self->OnPartOver(std::move(over));
                                });
    }
  }

 private:
  using RunPtr = std::shared_ptr<HierarchicalRun>;

  const CollectiveContext& first() const { return members_.context(0); }
  bool is_alone() const { return members_.size() == 1; }
  Clock& clock() const { return *first().executor->environment().clock; }

  absl::Status Prepare() {
    ready_ = meeting_.TakeReady();
    reduced_.resize(static_cast<size_t>(plan_.between->num_chunks()));
    if (!is_alone() && plan_.between->num_chunks() > 0) {
      ASSIGN_OR_RETURN(id_, communicator_->Id(*members_.device(0).nccl()));
    }
    for (int place = 0; place < members_.size(); ++place) {
      CudaDevice& device = members_.device(place);
      ASSIGN_OR_RETURN(
          auto end, GpuPassEnd::Create(device, device.nccl_stream(), clock()));
      ends_.push_back(std::move(end));
      RETURN_IF_ERROR(device.runtime().WaitForEvent(
          device.nccl_stream(), ready_[static_cast<size_t>(place)]));
    }
    return first().execution->cancellation.status();
  }

  NcclGroup::Options Options() const {
    NcclGroup::Options options = {
        .nccl = members_.device(0).nccl(),
        .id = id_,
        .size = members_.size(),
        .environment = first().executor->environment(),
        .cancellation = first().params->group->cancellation,
        // Unbounded: launches of an execution end with it, and follow each
        // other.
        .most_running = std::numeric_limits<int>::max()};
    for (int place = 0; place < members_.size(); ++place) {
      options.ranks.push_back(
          {.rank = place, .gpu = members_.device(place).gpu()});
    }
    return options;
  }

  void LookLater(const RunPtr& run) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    // The run keeps this object alive.
    alarm_ =
        clock().CallAt(clock().Now() + GpuPassEnd::kLookEvery, [this, run] {
          run->Meanwhile([&] {
            const absl::Status fault = FindFault();
            if (fault.ok()) LookLater(run);
            return fault;
          });
        });
  }

  absl::Status FindFault() {
    absl::Status fault = communicator_->group()->status();
    for (int place = 0; place < members_.size(); ++place) {
      CudaDevice& device = members_.device(place);
      // Finds whether the GPU is spoilt. Other errors do not delay the end.
      device.runtime().IsDone(ready_[static_cast<size_t>(place)]).IgnoreError();
      fault.Update(device.runtime().FirstError(device.gpu()));
    }
    return fault;
  }

  absl::Status MarkReduced(int64_t index) {
    CudaDevice& device = members_.device(0);
    ASSIGN_OR_RETURN(auto reduced, device.Mark(device.nccl_stream()));
    reduced_[static_cast<size_t>(index)] = std::move(reduced);
    return absl::OkStatus();
  }

  // Lets NCCL launch `call(place)` for each member, after `before` is on the
  // first member's stream.
  void Launch(std::vector<GpuLaunch> before,
              absl::AnyInvocable<NcclCall(int place)> call,
              StatusCallback launched) {
    communicator_->group()->Add(
        [this] { return Options(); },
        {.key = first().exec_key,
         .begin = [self = shared_from_this(), before = std::move(before),
                   call = std::move(call)](
                      const NcclTicket& /*ticket*/,
                      absl::Span<const NcclComm> comms) mutable
             -> absl::StatusOr<std::vector<NcclPart>> {
           {
             MutexLock lock(&self->mu_);
             ++self->num_launches_;
           }
           const GpuMembers& members = self->members_;
           RETURN_IF_ERROR(LaunchInOrder(members.device(0).runtime(), before,
                                         members.device(0).nccl_stream()));
           std::vector<NcclPart> parts;
           for (int place = 0; place < members.size(); ++place) {
             parts.push_back({.comm = comms[static_cast<size_t>(place)],
                              .stream = members.device(place).nccl_stream(),
                              .calls = {call(place)}});
           }
           return parts;
         },
         .launched = std::move(launched)});
  }

  NcclCall CallOf(int place, Range elements, NcclOp op) const {
    const bool reduces = op == NcclOp::kReduce;
    const bool is_root = place == 0;
    const std::byte* const input =
        reduces ? members_.input(place) + BytesOf(elements.begin)
                : Result(0, elements);
    return {.op = op,
            .input = reduces || is_root ? input : nullptr,
            .output = reduces && !is_root ? nullptr : Result(place, elements),
            .num_elements = static_cast<size_t>(elements.size),
            .dtype = members_.instance().dtype,
            .kind = members_.instance().merge_op.kind(),
            .peer = 0};
  }

  std::vector<GpuLaunch> FinalOpOn(Range elements) const {
    const CollInstanceParams& instance = members_.instance();
    if (instance.final_op.is_identity()) return {};
    return {GpuReduction{.kind = ReductionKind::kSum,
                         .dtype = instance.dtype,
                         .inputs = {Result(0, elements)},
                         .outputs = {Result(0, elements)},
                         .num_elements = static_cast<size_t>(elements.size),
                         .divisor = first().params->group->size()}};
  }

  std::byte* Result(int place, Range elements) const {
    return members_.output(place) + BytesOf(elements.begin);
  }

  size_t BytesOf(int64_t num_elements) const {
    return static_cast<size_t>(num_elements) *
           SizeOf(members_.instance().dtype);
  }

  void Fail(const absl::Status& status) {
    first().executor->FailExecution(*first().execution, status);
  }

  void OnPartOver(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    // Streams also go on after an abort.
    if (!is_alone()) status.Update(communicator_->group()->status());
    if (!status.ok()) Fail(status);
    int num_launches = 0;
    {
      MutexLock lock(&mu_);
      if (--num_parts_ > 0) return;
      num_launches = num_launches_;
    }
    for (int i = 0; i < num_launches; ++i) communicator_->group()->Ended();
    Cancellation& cancellation = first().execution->cancellation;
    cancellation.Unwatch(watch_);
    Adjourn(cancellation.status());
  }

  void Adjourn(absl::Status status) {
    // Freed first: the devices may be destroyed with the execution.
    reduced_.clear();
    ends_.clear();
    meeting_.Adjourn(std::move(status));
  }

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

}  // namespace

void RunNcclThen(GpuMeeting& meeting, const GpuMembers& members,
                 const NcclThenPlan& plan) {
  std::make_shared<NcclIntraTaskLevel>(meeting, members, plan)->Start();
}

}  // namespace tutti
