#include "remote/mpi/collectives/mpi_collectives.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/rank_list.h"
#include "framework/base/status_macros.h"
#include "framework/collective/given_rows.h"
#include "framework/collective/group_resources.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"

namespace tutti {
namespace {

// Time to wait, at the end, for permission to end executions that have not
// begun. Longer than a silent leader takes to be lost: a leader that stands
// still may yet begin one.
constexpr absl::Duration kCloseLimit = DefaultTime("permission");

// Larger final ops do not run on MPI's thread, where all other work waits.
constexpr size_t kMostFinishedInline = size_t{64} << 10;

// Looks for the next event while an execution is under way, before other
// pollers get a turn. Notes and bytes of small collectives come that soon. A
// few looks cost as much as one round of all pollers.
constexpr int kLooks = 8;

// Polls between looks for notes while no execution here waits for them. A look
// takes time from work that waits for the bytes of others, and may yield.
constexpr uint32_t kIdlePolls = 8;

// Object whose `done` runs on this thread, which is MPI's. An execution started
// inside `done` is added at once, without waiting for the next round.
thread_local const MpiCollectives* in_turn = nullptr;

absl::Status ShutDown() {
  return absl::CancelledError("the transport has been shut down");
}

}  // namespace

// State shared by a group's executions, as long as the group lives.
class MpiCollectives::Group {
 public:
  ~Group() {
    const auto owner = owner_.lock();
    if (owner == nullptr) return;
    owner->Post([owner = owner.get(), key = key_] {
      owner->communicators_.Release(key);
    });
  }

  absl::Status Initialize(const std::shared_ptr<MpiCollectives>& owner,
                          const CollGroupParams& group) {
    std::call_once(once_, [&] {
      for (const CollGroupMember& member : group.members) {
        const auto task = owner->options_.cluster.TaskOf(member.device.name);
        if (!task.ok()) {
          status_ = task.status();
          return;
        }
        if (absl::c_linear_search(tasks_, *task)) {
          status_ = absl::FailedPreconditionError(absl::StrCat(
              "MPI runs collectives of one device of each "
              "process; several of group ",
              group.key, " are in ", owner->options_.cluster.Label(*task)));
          return;
        }
        tasks_.push_back(*task);
      }
      key_ = {.generation = group.generation, .group = group.key};
      owner_ = owner;
    });
    return status_;
  }

  const std::vector<int>& tasks() const { return tasks_; }

 private:
  std::once_flag once_;
  std::weak_ptr<MpiCollectives> owner_;
  ExecKey key_;
  std::vector<int> tasks_;
  absl::Status status_;
};

// Member's part in one execution.
class MpiCollectives::Execution final
    : public MpiPart,
      public std::enable_shared_from_this<Execution> {
 public:
  Execution(std::shared_ptr<MpiCollectives> owner,
            const CollectiveContext& context, StatusCallback done)
      : owner_(std::move(owner)),
        context_(context),
        key_(context.exec_key),
        tasks_(
            static_cast<const Group*>(context.implementation_state)->tasks()),
        rows_digest_(DigestOfGivenRows(*context.params->instance)),
        done_(std::move(done)) {}

  void Start() {
    operation_.emplace(context_);
    absl::Status status = operation_->Allocate();
    if (!status.ok()) {
      operation_.reset();
      return std::move(done_)(std::move(status));
    }
    watch_ = context_.execution->cancellation.Watch(
        [self = shared_from_this()](const absl::Status& reason) {
          self->owner_->Post([self, reason] { self->Fail(reason); });
        });
    if (in_turn == owner_.get()) return Add();
    if (owner_->Post([self = shared_from_this()] { self->Add(); })) return;
    context_.execution->cancellation.Unwatch(watch_);
    std::move(done_)(ShutDown());
  }

  // Functions of MpiPart, on MPI's thread.
  const ExecKey& key() const override { return key_; }
  const std::vector<int>& tasks() const override { return tasks_; }
  bool is_in_place() const override {
    return context_.input.is_set() && context_.output.is_set() &&
           context_.input.data() == context_.output.data();
  }
  uint64_t rows_digest() const override { return rows_digest_; }
  absl::string_view carried() const override {
    return operation_->small_input();
  }
  absl::StatusOr<std::string> Merge(
      absl::Span<const absl::string_view> carried) const override {
    return operation_->Merge(carried);
  }
  void Begin(const Order& order) override;
  void Refuse(const absl::Status& why) override {
    End(failure_.ok() ? why : failure_);
  }

  // Begins in MPI, after Begin(). May block (MpiCommunicators::Make()).
  void BeginInMpi(bool makes_communicator, bool any_in_place);

  // Ends an execution that began without MPI. On MPI's thread, but not inside
  // Begin(): an execution started by `done` would begin inside this one.
  void EndMerged() { FinishOnTrampoline(merged_status_); }

 private:
  // Functions for MPI's thread.
  void Add();
  void Fail(const absl::Status& why);
  void NoteIfFailedInMpi();
  void OnRequestEnded();
  void FinishOnTrampoline(absl::Status status);
  void End(absl::Status status);

  const std::shared_ptr<MpiCollectives> owner_;
  const CollectiveContext& context_;  // Valid until `done_` runs.
  const ExecKey key_;
  const std::vector<int>& tasks_;  // Valid as long.
  const uint64_t rows_digest_;
  StatusCallback done_;
  Cancellation::WatchId watch_ = 0;  // Watch on the execution's cancellation.

  // Owned by MPI's thread after Add().
  absl::Status failure_;
  std::optional<MpiOperation> operation_;
  size_t num_requests_ = 0;
  absl::Status merged_status_;
};

void MpiCollectives::Execution::Add() {
  ++owner_->num_executions_;
  if (owner_->phase() != Phase::kOpen) return End(ShutDown());
  if (!failure_.ok()) return End(failure_);
  const bool is_exchanged = tasks_.size() == 2 && !carried().empty();
  if (is_exchanged) return owner_->exchange_.Add(shared_from_this());
  owner_->agreement_.AddReady(shared_from_this());
}

void MpiCollectives::Execution::Fail(const absl::Status& why) {
  if (done_ == nullptr) return;
  failure_.Update(why);
  NoteIfFailedInMpi();
  owner_->Withdraw(key_, failure_);
}

void MpiCollectives::Execution::Begin(const Order& order) {
  if (!carried().empty()) {
    merged_status_ = operation_->FinishMerged(order.merged);
    context_.executor->Launched(context_);
    owner_->merged_.push_back(shared_from_this());
    return;
  }
  const bool leads = tasks_[0] == owner_->options_.cluster.this_task;
  const bool waits = leads && order.makes_communicator;
  owner_->beginnings_.push_back(
      {.execution = shared_from_this(),
       .makes_communicator = order.makes_communicator,
       .any_in_place = order.any_in_place,
       .num_notes_before = waits ? owner_->notes_.num_sent() : 0});
  owner_->BeginInMpi();
}

// Begins executions in the order of their "begin". Making a communicator blocks
// this thread until all members have come. Before, the leader's "begin" to them
// has to leave: it may wait for receipts, which only this thread takes.
bool MpiCollectives::BeginInMpi() {
  bool has_begun = false;
  while (!beginnings_.empty()) {
    const Beginning& next = beginnings_.front();
    if (notes_.HasWaiting(next.execution->tasks(), next.num_notes_before)) {
      break;
    }
    const Beginning beginning = std::move(beginnings_.front());
    beginnings_.pop_front();
    beginning.execution->BeginInMpi(beginning.makes_communicator,
                                    beginning.any_in_place);
    has_begun = true;
  }
  return has_begun;
}

void MpiCollectives::Execution::BeginInMpi(bool makes_communicator,
                                           bool any_in_place) {
  if (makes_communicator) owner_->communicators_.Make(key_, tasks_);
  const std::vector<MPI_Request> requests =
      operation_->Start(owner_->communicators_.Find(key_), &owner_->merges_,
                        any_in_place, owner_->communicators_.FindRing(key_));
  context_.executor->Launched(context_);
  num_requests_ = requests.size();
  NoteIfFailedInMpi();
  for (const MPI_Request request : requests) {
    owner_->under_way_.Add(
        request, [self = shared_from_this()](const MPI_Status& /*status*/) {
          self->OnRequestEnded();
        });
  }
}

void MpiCollectives::Execution::NoteIfFailedInMpi() {
  if (failure_.ok() || num_requests_ == 0) return;
  owner_->failed_in_mpi_.insert(this);
}

void MpiCollectives::Execution::OnRequestEnded() {
  if (--num_requests_ > 0) return;
  owner_->failed_in_mpi_.erase(this);
  const bool has_work = !context_.params->instance->final_op.is_identity() &&
                        context_.output.size_bytes() > kMostFinishedInline;
  if (!has_work) return FinishOnTrampoline(operation_->Finish());
  owner_->options_.environment.queue->Schedule([self = shared_from_this()] {
    const absl::Status status = self->operation_->Finish();
    self->owner_->Post([self, status] { self->End(status); });
  });
}

void MpiCollectives::Execution::FinishOnTrampoline(absl::Status status) {
  in_turn = owner_.get();
  End(std::move(status));
  in_turn = nullptr;
}

void MpiCollectives::Execution::End(absl::Status status) {
  if (!failure_.ok()) status = failure_;
  operation_.reset();
  context_.execution->cancellation.Unwatch(watch_);
  const auto owner = owner_;
  std::exchange(done_, nullptr)(std::move(status));
  --owner->num_executions_;
}

MpiCollectives::MpiCollectives(const Options& options)
    : options_(options),
      notes_(options.runtime),
      agreement_(
          {.this_task = options.cluster.this_task, .send = NoteSender()}),
      exchange_({.this_task = options.cluster.this_task, .send = NoteSender()}),
      communicators_({.this_task = options.cluster.this_task,
                      .all = options.runtime->messages(),
                      .ring = options.runtime->ring(),
                      .send = NoteSender(),
                      .on_free = [this](const ExecKey& key) {
                        agreement_.ForgetGroup(key);
                      }}) {}

std::function<void(int task, const MpiNote& note)>
MpiCollectives::NoteSender() {
  return [this](int task, const MpiNote& note) { notes_.Send(task, note); };
}

absl::Status MpiCollectives::Prepare(CollectiveContext* context) {
  const CollGroupParams& params = *context->params->group;
  RETURN_IF_ERROR(
      MpiOperation::Check(*context->params->instance, params.size()));
  const auto group = params.resources->GetOrCreate<Group>();
  context->implementation_state = group.get();
  return group->Initialize(shared_from_this(), params);
}

void MpiCollectives::Run(const CollectiveContext& context,
                         StatusCallback done) {
  std::make_shared<Execution>(shared_from_this(), context, std::move(done))
      ->Start();
}

std::string MpiCollectives::DescribeWaiting(const CollGroupParams& group,
                                            const ExecKey& exec) {
  const auto other = exchange_.Awaited(exec);
  if (other.has_value()) return NamesOf(group, {*other});
  const auto tasks = agreement_.Awaited(exec);
  if (!tasks.has_value()) return "";
  if (tasks->empty()) {
    return absl::StrCat(options_.cluster.Label(0),
                        ", which lets one group begin for the first time");
  }
  const auto leader = options_.cluster.TaskOf(group.members[0].device.name);
  const bool leads = leader.ok() && *leader == options_.cluster.this_task;
  return absl::StrCat(NamesOf(group, *tasks),
                      leads ? "" : ", which says when all are ready");
}

// Returns the name of the group's first rank in each of these tasks.
std::string MpiCollectives::NamesOf(const CollGroupParams& group,
                                    const std::vector<int>& tasks) const {
  std::vector<int> ranks;
  absl::flat_hash_set<int> left(tasks.begin(), tasks.end());
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto task = options_.cluster.TaskOf(group.members[rank].device.name);
    if (task.ok() && left.erase(*task) > 0) ranks.push_back(rank);
  }
  return ShortList(ranks.size(), [&](size_t i) {
    return absl::StrCat("rank ", ranks[i], " (",
                        group.members[ranks[i]].device.name.ToString(), ")");
  });
}

bool MpiCollectives::Post(Work work) {
  MutexLock lock(&mu_);
  if (phase() == Phase::kClosed) return false;
  options_.runtime->Post(std::move(work));
  return true;
}

// --- On MPI's thread ---------------------------------------------------------

void MpiCollectives::Open() { notes_.Open(); }

MpiPoller::State MpiCollectives::Poll(bool is_last) {
  const Phase phase = this->phase();
  const bool awaits =
      num_executions_ > 0 || notes_.is_sending() || phase == Phase::kClosing;
  if (!awaits && !is_last && ++num_idle_polls_ % kIdlePolls != 0) {
    return State::kIdle;
  }
  if (phase == Phase::kClosed) return PollClosed();
  bool is_busy = false;
  int num_looks = 0;
  do {
    const bool has_notes = notes_.Receive(
        [this](int task, const MpiNote& note) { OnNote(task, note); });
    const bool has_begun = BeginInMpi();
    const bool has_ended = under_way_.Poll();
    const bool has_merged = EndMerged();
    is_busy = is_busy || has_notes || has_begun || has_ended || has_merged;
  } while (num_executions_ > 0 && ++num_looks < kLooks);
  if (phase == Phase::kClosing) is_busy = EndClosing() || is_busy;
  if (is_busy) return State::kBusy;
  if (under_way_.size() > 0) return State::kRunning;
  const bool is_waiting = notes_.is_sending() || num_executions_ > 0;
  return is_waiting ? State::kWaiting : State::kIdle;
}

// Ends the merged executions; their callbacks may begin more.
bool MpiCollectives::EndMerged() {
  const auto merged = std::exchange(merged_, {});
  for (const auto& execution : merged) execution->EndMerged();
  return !merged.empty();
}

bool MpiCollectives::IsHeldBy(int rank) const {
  return absl::c_any_of(failed_in_mpi_, [rank](const Execution* execution) {
    return absl::c_linear_search(execution->tasks(), rank);
  });
}

// Frees communicators that other processes have needed for longer, once those
// have left too.
MpiPoller::State MpiCollectives::PollClosed() {
  const bool is_busy = notes_.Receive([this](int task, const MpiNote& note) {
    communicators_.OnNote(task, note);
  });
  if (communicators_.size() == 0) notes_.Close();
  if (is_busy) return State::kBusy;
  return notes_.is_sending() ? State::kWaiting : State::kIdle;
}

void MpiCollectives::OnNote(int task, const MpiNote& note) {
  if (note.kind == MpiNote::Kind::kGone) {
    return OnGone(task, Gone(task));
  }
  exchange_.OnNote(task, note);
  agreement_.OnNote(task, note);
  communicators_.OnNote(task, note);
}

void MpiCollectives::OnGone(int task, const absl::Status& why) {
  agreement_.OnGone(task, why);
  exchange_.OnGone(task, why);
}

// Withdraws the part, which is in one of the two or in neither.
void MpiCollectives::Withdraw(const ExecKey& key, const absl::Status& why) {
  agreement_.Withdraw(key, why);
  exchange_.Withdraw(key, why);
}

absl::Status MpiCollectives::Gone(int task) const {
  return absl::UnavailableError(
      absl::StrCat(options_.cluster.Label(task), " has shut down"));
}

void MpiCollectives::Drop(int task, const absl::Status& reason) {
  if (phase() != Phase::kClosed) OnGone(task, reason);
}

void MpiCollectives::SetPhase(Phase phase) {
  MutexLock lock(&mu_);
  phase_ = phase;
}

void MpiCollectives::Close(Work closed) {
  SetPhase(Phase::kClosing);
  closed_ = std::move(closed);
  refuse_all_at_ = options_.environment.clock->Now() + kCloseLimit;
  for (const auto& keys : {agreement_.Waiting(), exchange_.Waiting()}) {
    for (const ExecKey& key : keys) Withdraw(key, ShutDown());
  }
}

// Ends Close(). Gives up tasks that have not answered in time. Waits for the
// executions that MPI has begun.
bool MpiCollectives::EndClosing() {
  const int num_tasks = options_.cluster.num_tasks();
  if (num_executions_ > 0) {
    if (options_.environment.clock->Now() <= refuse_all_at_) return false;
    for (int task = 0; task < num_tasks; ++task) OnGone(task, ShutDown());
    if (num_executions_ > 0) return false;
  }
  communicators_.ReleaseAll();
  for (int task = 0; task < num_tasks; ++task) {
    if (task != options_.cluster.this_task) {
      notes_.Send(task, {.kind = MpiNote::Kind::kGone});
    }
  }
  SetPhase(Phase::kClosed);
  std::exchange(closed_, nullptr)();
  return true;
}

}  // namespace tutti
