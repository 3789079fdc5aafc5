#include "implementations/local_then.h"

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/cancellation.h"
#include "framework/collective_delegate.h"
#include "framework/collective_executor.h"
#include "framework/collective_type.h"
#include "framework/determinism.h"
#include "framework/execution.h"
#include "framework/fold.h"
#include "framework/group_layout.h"
#include "framework/implementation_traits.h"
#include "framework/local_buffers.h"
#include "framework/local_meeting.h"
#include "framework/merge_op.h"
#include "framework/mutex.h"
#include "framework/peer_access.h"
#include "framework/reduction.h"
#include "framework/tensor.h"
#include "implementations/cost.h"
#include "implementations/local_pass.h"
#include "schedule/first_members.h"

namespace tutti {
namespace {

// The last pass over more than this takes longer than the thread that ends the
// second stage, on which other transfers wait, should.
constexpr int64_t kInlineBytes = int64_t{64} << 10;

// Of those in this process, into the second one's output: the stage between
// processes need not copy what it reads and writes.
class PartialSum final : public LocalPass {
 public:
  PartialSum(absl::Span<const Attendee> members, ByteRange chunk)
      : LocalPass(members,
                  chunk.size() * (static_cast<int64_t>(members.size()) + 1)),
        chunk_(chunk) {
    for (int i = 0; i < group_size(); ++i) inputs_.push_back(input(i));
    outputs_.push_back(output(1));
  }

 private:
  int64_t num_bytes() const override { return chunk_.size(); }
  absl::Status Run(ByteRange slice) const override {
    const int64_t begin = chunk_.begin + slice.begin;
    return Fold(instance().dtype, instance().merge_op, FinalOp(),
                {.inputs = At<const uint8_t>(inputs_, begin),
                 .outputs = At<uint8_t>(outputs_, begin),
                 .num_bytes = slice.size()});
  }

  const ByteRange chunk_;
  Pointers<const uint8_t> inputs_;
  Pointers<uint8_t> outputs_;
};

// The final op on the first one's output, and that to the others.
class FinishAndFanOut final : public LocalPass {
 public:
  FinishAndFanOut(absl::Span<const Attendee> members, int num_merged,
                  ByteRange chunk)
      : LocalPass(members, chunk.size() * static_cast<int64_t>(members.size())),
        num_merged_(num_merged),
        chunk_(chunk) {
    for (int i = 1; i < group_size(); ++i) outputs_.push_back(output(i));
  }

 private:
  int64_t num_bytes() const override { return chunk_.size(); }
  absl::Status Run(ByteRange slice) const override {
    const int64_t begin = chunk_.begin + slice.begin;
    uint8_t* const result = output(0) + begin;
    const absl::Status status = instance().final_op.Apply(
        instance().dtype, result, slice.size() / element_bytes(), num_merged_);
    if (!status.ok()) return status;
    const Pointers<uint8_t> to = At<uint8_t>(outputs_, begin);
    const absl::Span<uint8_t* const> all(to), none;
    CopyToMany(result, streams() ? none : all, streams() ? all : none,
               static_cast<size_t>(slice.size()));
    return absl::OkStatus();
  }

  const int num_merged_;
  const ByteRange chunk_;
  Pointers<uint8_t> outputs_;
};

}  // namespace

// One execution in one task, from the arrival of its last member to the end.
// Kept by its own callbacks. Thread-safe once started.
class LocalThen::Stages : public std::enable_shared_from_this<Stages> {
 public:
  Stages(absl::Span<const Attendee> members, LocalMeeting& meeting)
      : members_(members),
        meeting_(meeting),
        between_(*static_cast<const Between*>(first().implementation_state)) {}

  // Starts what can start, or ends.
  void GoOn() ABSL_LOCKS_EXCLUDED(mu_) {
    int64_t reduced = -1;
    int64_t met = -1;
    bool ends = false;
    {
      MutexLock lock(&mu_);
      if (has_ended_) return;
      has_failed_ |= first().execution->cancellation.cancelled();
      if (!has_failed_ && !is_meeting_ && num_met_ < num_reduced_) {
        is_meeting_ = true;
        met = num_met_;
        ++num_under_way_;
      }
      // One ahead of the one that meets others.
      if (!has_failed_ && !is_reducing_ &&
          num_reduced_ < between_.num_chunks() && num_reduced_ < num_met_ + 2) {
        is_reducing_ = true;
        reduced = num_reduced_;
        ++num_under_way_;
      }
      ends = num_under_way_ == 0;
      has_ended_ = ends;
    }
    // The last one may end it inside.
    const auto self = shared_from_this();
    if (met >= 0) Meet(met);
    if (reduced >= 0) Reduce(reduced);
    if (ends) End();
  }

 private:
  const CollectiveContext& first() const { return *members_[0].context; }
  bool is_alone() const { return members_.size() == 1; }

  ByteRange BytesOf(Chunk chunk) const {
    const auto size =
        static_cast<int64_t>(SizeOf(first().params->instance->dtype));
    return {chunk.begin * size, (chunk.begin + chunk.size) * size};
  }

  // The three stages of a chunk. Each ends with the function behind it.
  void Reduce(int64_t index) {
    if (is_alone()) return OnReduced(absl::OkStatus());
    const auto pass = std::make_shared<PartialSum>(
        members_, BytesOf(between_.ChunkAt(index)));
    // Later ones start where others' transfers wait for the thread.
    if (index == 0 && pass->is_small()) return OnReduced(pass->RunHere());
    LocalPass::Schedule(pass, [self = shared_from_this()](absl::Status status) {
      self->OnReduced(std::move(status));
    });
  }

  void OnReduced(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    if (!status.ok()) Fail(std::move(status));
    {
      MutexLock lock(&mu_);
      is_reducing_ = false;
      ++num_reduced_;
      --num_under_way_;
    }
    GoOn();
  }

  // From the second member's output into the first one's.
  void Meet(int64_t index) {
    const Chunk chunk = between_.ChunkAt(index);
    context_ = std::make_unique<CollectiveContext>();
    CollectiveContext& context = *context_;
    context.executor = first().executor;
    context.device = first().device;
    context.input =
        PartOf(is_alone() ? first().input : members_[1].context->output, chunk);
    context.output = PartOf(first().output, chunk);
    context.exec_key = first().exec_key;
    context.execution = first().execution;
    // Counted once, with the first chunk, or when the stage has ended.
    first().launched = true;
    context.launched = index > 0;
    between_.Run(index, context,
                 [self = shared_from_this(), index](absl::Status status) {
                   self->OnMet(index, std::move(status));
                 });
  }

  void OnMet(int64_t index, absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    first().executor->Launched(*context_);
    const bool has_met = status.ok();
    if (!has_met) Fail(std::move(status));
    {
      MutexLock lock(&mu_);
      is_meeting_ = false;
      ++num_met_;
      if (!has_met) --num_under_way_;
    }
    if (has_met) Spread(index);
    GoOn();
  }

  void Spread(int64_t index) {
    if (is_alone() && first().params->instance->final_op.is_identity()) {
      return OnSpread(absl::OkStatus());
    }
    const ByteRange chunk = BytesOf(between_.ChunkAt(index));
    const auto pass = std::make_shared<FinishAndFanOut>(
        members_, first().params->group->size(), chunk);
    if (chunk.size() <= kInlineBytes) return OnSpread(pass->RunHere());
    LocalPass::Schedule(pass, [self = shared_from_this()](absl::Status status) {
      self->OnSpread(std::move(status));
      self->GoOn();
    });
  }

  void OnSpread(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    if (!status.ok()) Fail(std::move(status));
    MutexLock lock(&mu_);
    --num_under_way_;
  }

  void Fail(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_) {
    first().executor->FailExecution(*first().execution, std::move(status));
    MutexLock lock(&mu_);
    has_failed_ = true;
  }

  // The tensors are the callers' once they hear of it.
  void End() {
    context_.reset();
    meeting_.Adjourn(first().execution->cancellation.status());
  }

  const absl::Span<const Attendee> members_;  // Valid until Adjourn().
  LocalMeeting& meeting_;
  const Between& between_;

  // What the second stage has of a chunk; of the one that meets others.
  std::unique_ptr<CollectiveContext> context_;

  Mutex mu_;
  int64_t num_reduced_ ABSL_GUARDED_BY(mu_) = 0;  // Chunks.
  int64_t num_met_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_reducing_ ABSL_GUARDED_BY(mu_) = false;
  bool is_meeting_ ABSL_GUARDED_BY(mu_) = false;
  bool has_failed_ ABSL_GUARDED_BY(mu_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;  // The members may be gone.
  int num_under_way_ ABSL_GUARDED_BY(mu_) = 0;   // Stages.
};

namespace {

// Where the members of each task meet. A process may have several.
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

// Else they could not meet.
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
  std::call_once(once_, [&] { status_ = between_->Prepare(*context); });
  context->implementation_state = between_.get();
  return status_;
}

void LocalThen::Run(const CollectiveContext& context, StatusCallback done) {
  if (!IsFirstOfTask(*context.params)) context.executor->Launched(context);
  const CollectiveParams& params = *context.params;
  const std::vector<int>& ranks = RanksOfTask(params);
  const auto place = static_cast<size_t>(
      absl::c_lower_bound(ranks, params.default_rank) - ranks.begin());
  LocalMeeting& meeting = context.execution->Shared<TaskMeetings>().Of(
      params.group->layout->task_of(params.default_rank));
  const auto members =
      meeting.JoinAt(place, ranks.size(), context, std::move(done));
  if (!members.empty()) std::make_shared<Stages>(members, meeting)->GoOn();
}

namespace {

class ScheduleBetween final : public LocalThen::Between {
 public:
  ScheduleBetween(std::string name, int64_t chunk_bytes)
      : name_(std::move(name)), chunk_bytes_(chunk_bytes) {}

  absl::Status Check(const CollectiveContext& /*context*/) const override {
    return absl::OkStatus();
  }
  absl::Status Prepare(const CollectiveContext& first) override {
    auto made =
        ReductionBetweenTasks::Create(*first.params, name_, chunk_bytes_);
    if (made.ok()) reduction_ = *std::move(made);
    return made.status();
  }
  int64_t num_chunks() const override { return reduction_->num_chunks(); }
  Chunk ChunkAt(int64_t index) const override {
    return reduction_->ChunkAt(index);
  }
  void Run(int64_t index, CollectiveContext& context,
           StatusCallback done) const override {
    reduction_->Run(index, context, std::move(done));
  }

 private:
  const std::string name_;
  const int64_t chunk_bytes_;
  std::unique_ptr<const ReductionBetweenTasks> reduction_;
};

class DelegateBetween final : public LocalThen::Between {
 public:
  explicit DelegateBetween(std::string delegate)
      : delegate_(std::move(delegate)) {}

  absl::Status Check(const CollectiveContext& context) const override {
    CollectiveDelegate* const delegate = context.executor->peers().delegate();
    if (delegate != nullptr && delegate->name() == delegate_) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(absl::StrCat(
        delegate_, " does not connect the processes of the group"));
  }
  absl::Status Prepare(const CollectiveContext& first) override {
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
  Chunk ChunkAt(int64_t /*index*/) const override {
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

  // What the delegate is told of the collective.
  CollectiveParams params_;
  const void* state_ = nullptr;
};

class Factory final : public CollectiveFactory {
 public:
  using MakeBetween = std::function<std::unique_ptr<LocalThen::Between>()>;

  Factory(ImplementationTraits traits, MakeBetween make_between)
      : CollectiveFactory(std::move(traits)),
        make_between_(std::move(make_between)) {}

  std::unique_ptr<CollectiveImplementationInterface> Create() const override {
    return std::make_unique<LocalThen>(make_between_());
  }

 private:
  const MakeBetween make_between_;
};

ImplementationTraits Traits(std::string summary) {
  ImplementationTraits traits;
  traits.summary = std::move(summary);
  traits.collectives = {CollectiveType::kAllReduce};
  traits.device_types = {"CPU"};
  return traits;
}

}  // namespace

// Both passes of a process together touch as much as the one of LocalReduce,
// which is what there is within one task. Those of all but one chunk run while
// others are between processes.
double LocalThenSeconds(absl::string_view between, const CostQuery& query) {
  if (query.layout.size() == 1) return 0;
  const auto factory = CollectiveRegistry::Global().Find(between);
  if (query.layout.num_tasks() == 1 || !factory.ok() ||
      (*factory)->traits().cost_seconds == nullptr) {
    return std::numeric_limits<double>::infinity();
  }
  const double most = LargestTask(query.layout);
  const auto exposed =
      static_cast<double>(std::min(query.bytes, kLocalThenChunkBytes));
  const auto firsts = GroupLayout::Uniform(query.layout.num_tasks(),
                                           /*devices_per_task=*/1);
  return TransferSeconds(query.model.within, /*messages=*/1,
                         (most - 1) / most * exposed) +
         (*factory)->traits().cost_seconds({.type = query.type,
                                            .layout = firsts,
                                            .bytes = query.bytes,
                                            .model = query.model,
                                            .one_process = query.one_process});
}

std::shared_ptr<const CollectiveFactory> MakeLocalThenFactory(
    std::string between, double (*cost_seconds)(const CostQuery& query),
    int64_t chunk_bytes) {
  ImplementationTraits traits = Traits(
      absl::StrCat("one pass within each process, ", between, " between them"));
  traits.cost_seconds = cost_seconds;
  return std::make_shared<const Factory>(
      std::move(traits), [between, chunk_bytes] {
        return std::make_unique<ScheduleBetween>(between, chunk_bytes);
      });
}

std::shared_ptr<const CollectiveFactory> LocalThenDelegateFactory(
    std::string delegate, std::string summary) {
  ImplementationTraits traits = Traits(std::move(summary));
  traits.delegate = delegate;
  traits.delegates_between_processes = true;
  // What a library computes may change from run to run, as MPI's may: it only
  // recommends the contrary.
  traits.determinism = Determinism::kNotGuaranteed;
  return std::make_shared<const Factory>(std::move(traits), [delegate] {
    return std::make_unique<DelegateBetween>(delegate);
  });
}

}  // namespace tutti
