#include "implementations/two_level/local_then.h"

#include <cstddef>
#include <limits>
#include <map>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/block_cache.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "framework/choice/delegate_cost.h"
#include "framework/collective/collective_delegate.h"
#include "framework/executor/local_meeting.h"
#include "implementations/parts/cost.h"
#include "implementations/two_level/hierarchy.h"
#include "implementations/two_level/local_intra_task_level.h"
#include "implementations/two_level/local_then_between.h"
#include "schedule/chunk_map.h"
#include "schedule/engine/hierarchical_run.h"
#include "schedule/engine/schedule_between_tasks.h"
#include "schedule/engine/stand_in.h"
#include "schedule/first_members.h"
#include "tutti/collective.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Meetings of the members of each task. A process may have several tasks.
class TaskMeetings {
 public:
  explicit TaskMeetings(Cancellation& cancellation)
      : cancellation_(cancellation) {}

  LocalMeeting& Of(int task) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    std::unique_ptr<LocalMeeting>& meeting = meetings_[task];
    if (meeting == nullptr) {
      meeting = std::make_unique<LocalMeeting>(cancellation_);
    }
    return *meeting;
  }

 private:
  Cancellation& cancellation_;
  Mutex mu_;
  std::map<int, std::unique_ptr<LocalMeeting>> meetings_ ABSL_GUARDED_BY(mu_);
};

const std::vector<int>& RanksOfTask(const CollectiveParams& params) {
  const GroupLayout& layout = *params.group->layout;
  return layout
      .tasks()[static_cast<size_t>(layout.task_of(params.default_rank))];
}

// Checks that all members of the task are in this process and can meet.
absl::Status CheckTaskIsHere(const CollectiveParams& params) {
  for (const int rank : RanksOfTask(params)) {
    if (params.task->is_local[static_cast<size_t>(rank)]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(params.instance->impl_details.implementation,
                     " needs each task in one process, but rank ", rank,
                     " is not in that of rank ", params.default_rank));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LocalThen::InitializeCollectiveContext(
    CollectiveContext* context) {
  absl::Status status = CheckTaskIsHere(*context->params);
  if (status.ok()) status = between_->Check(*context);
  if (!status.ok() || !IsFirstOfTask(*context->params)) return status;
  std::call_once(once_, [&] {
    // With several members, the task's sum is in the output of another member.
    const bool is_alone = RanksOfTask(*context->params).size() == 1;
    status_ = between_->Prepare(*context, is_alone ? context->input : Tensor());
  });
  context->implementation_state = between_.get();
  return status_;
}

void LocalThen::Run(const CollectiveContext& context, StatusCallback done) {
  const CollectiveParams& params = *context.params;
  if (!IsFirstOfTask(params)) context.executor->Launched(context);
  const std::vector<int>& ranks = RanksOfTask(params);
  const auto place = static_cast<size_t>(
      absl::c_lower_bound(ranks, params.default_rank) - ranks.begin());
  LocalMeeting& meeting = context.execution->Shared<TaskMeetings>().Of(
      params.group->layout->task_of(params.default_rank));
  const auto members =
      meeting.JoinAt(place, ranks.size(), context, std::move(done));
  if (members.empty()) return;
  const auto* const between = static_cast<const InterTaskLevel*>(
      members[0].context->implementation_state);
  std::allocate_shared<HierarchicalRun>(
      CachedAllocator<HierarchicalRun>(),
      std::allocate_shared<LocalIntraTaskLevel>(
          CachedAllocator<LocalIntraTaskLevel>(), members, meeting),
      *between, *members[0].context)
      ->Start();
}

namespace {

class DelegateBetweenTasks final : public InterTaskLevel {
 public:
  explicit DelegateBetweenTasks(std::string delegate)
      : delegate_(std::move(delegate)) {}

  absl::Status Check(const CollectiveContext& context) const override {
    CollectiveDelegate* const delegate = context.executor->peers().delegate();
    if (delegate != nullptr && delegate->name() == delegate_) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(absl::StrCat(
        delegate_, " does not connect the processes of the group"));
  }
  absl::Status Prepare(const CollectiveContext& first,
                       const Tensor& /*input*/) override {
    params_ = AmongFirstMembers(*first.params,
                                first.params->instance->shape.num_elements());
    CollectiveContext context;
    context.params = &params_;
    context.executor = first.executor;
    context.device = first.device;
    const absl::Status status =
        first.executor->peers().delegate()->Prepare(&context);
    state_ = context.implementation_state;
    return status;
  }
  int64_t num_chunks() const override { return 1; }
  Range ChunkAt(int64_t /*index*/) const override {
    return {0, params_.instance->shape.num_elements()};
  }
  void Run(int64_t /*index*/, CollectiveContext& context,
           StatusCallback done) const override {
    context.params = &params_;
    context.implementation_state = state_;
    context.executor->peers().delegate()->Run(context, std::move(done));
  }

 private:
  const std::string delegate_;

  // Parameters that the delegate receives.
  CollectiveParams params_;
  const void* state_ = nullptr;
};

class DelegateFactory final : public CollectiveFactory {
 public:
  using CollectiveFactory::CollectiveFactory;

  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return std::make_unique<LocalThen>(
        std::make_unique<DelegateBetweenTasks>(traits().delegate));
  }
};

class ScheduleFactory final : public HybridFactory, public HasStandIn {
 public:
  ScheduleFactory(std::string between, int64_t chunk_bytes, Algorithm functions)
      : HybridFactory(functions.traits, std::move(between), chunk_bytes),
        functions_(std::move(functions)) {}

  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return std::make_unique<LocalThen>(MakeBetween());
  }

  absl::StatusOr<StandIn> MakeStandIn() const override {
    ASSIGN_OR_RETURN(const auto factory, FindInterTaskLevel(between()));
    Algorithm algorithm = functions_;
    algorithm.traits = traits();
    if (AlgorithmOf(*factory)->subdivide == nullptr) {
      algorithm.subdivide = nullptr;
    }
    return StandIn{
        .algorithm = std::move(algorithm),
        .note = absl::StrCat("runs in chunks of ", chunk_bytes(),
                             " bytes; within a task, passes over memory take "
                             "the place of messages")};
  }

 private:
  const Algorithm functions_;
};

ImplementationTraits Traits(std::string summary) {
  ImplementationTraits traits;
  traits.summary = std::move(summary);
  traits.collectives = {CollectiveType::kAllReduce};
  traits.device_types = {"CPU"};
  return traits;
}

// Predicted seconds of both passes of a process. Together they touch as many
// bytes as the pass of LocalReduce, which is cheaper within one task. Passes of
// all chunks but one overlap with messages between processes.
double PassSeconds(const CostQuery& query, int64_t chunk_bytes) {
  const double most = LargestTask(query.layout);
  const auto exposed = static_cast<double>(std::min(query.bytes, chunk_bytes));
  return TransferSeconds(query.model.within, /*messages=*/1,
                         (most - 1) / most * exposed);
}

double DelegateThenSeconds(const CostQuery& query) {
  if (query.layout.size() == 1) return 0;
  return PassSeconds(query, query.bytes) + DelegateSeconds(query);
}

}  // namespace

double LocalThenSeconds(absl::string_view between, int64_t chunk_bytes,
                        const CostQuery& query) {
  if (query.layout.size() == 1) return 0;
  if (query.layout.num_tasks() == 1) {
    return std::numeric_limits<double>::infinity();
  }
  // FindInterTaskLevel() refuses non-schedules. A non-schedule may be this
  // implementation itself, without end.
  const auto factory = FindInterTaskLevel(between);
  if (!factory.ok() || (*factory)->traits().cost_seconds == nullptr) {
    return std::numeric_limits<double>::infinity();
  }
  const GroupLayout firsts = FirstsOf(query.layout.num_tasks());
  return PassSeconds(query, chunk_bytes) +
         (*factory)->traits().cost_seconds({.type = query.type,
                                            .layout = firsts,
                                            .bytes = query.bytes,
                                            .model = query.model,
                                            .one_process = query.one_process});
}

std::shared_ptr<const CollectiveFactory> MakeLocalThenFactory(
    std::string between, int64_t chunk_bytes, Algorithm functions) {
  ImplementationTraits traits = Traits(
      absl::StrCat("one pass within each process, ", between, " between them"));
  traits.check_parts = functions.traits.check_parts;
  traits.cost_seconds = functions.traits.cost_seconds;
  functions.traits = std::move(traits);
  return std::make_shared<const ScheduleFactory>(
      std::move(between), chunk_bytes, std::move(functions));
}

std::shared_ptr<const CollectiveFactory> LocalThenDelegateFactory(
    std::string delegate, std::string summary) {
  ImplementationTraits traits = Traits(std::move(summary));
  traits.delegate = std::move(delegate);
  traits.delegates_between_processes = true;
  // Results of a library may change from run to run. MPI only recommends that
  // they do not.
  traits.determinism = Determinism::kNotGuaranteed;
  traits.cost_seconds = DelegateThenSeconds;
  return std::make_shared<const DelegateFactory>(std::move(traits));
}

}  // namespace tutti
