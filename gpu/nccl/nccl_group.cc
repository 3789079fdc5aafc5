#include "gpu/nccl/nccl_group.h"

#include <algorithm>
#include <utility>

#include "framework/base/callbacks.h"
#include "gpu/nccl/nccl_finalization.h"

namespace tutti {
namespace {

std::vector<int> GpusOf(absl::Span<const NcclRank> ranks) {
  std::vector<int> gpus;
  gpus.reserve(ranks.size());
  for (const NcclRank& rank : ranks) gpus.push_back(rank.gpu);
  return gpus;
}

}  // namespace

NcclGroup::~NcclGroup() {
  if (options_.cancellation != nullptr) options_.cancellation->Unwatch(watch_);
  if (comms_.empty()) return;
  FinalizeNccl(options_.nccl, std::move(comms_), options_.environment);
}

absl::Status NcclGroup::status() const {
  MutexLock lock(&mu_);
  return failure_;
}

void NcclGroup::Add(absl::FunctionRef<Options()> options, Launch launch) {
  if (!Enter(launch)) return;
  if (options_.nccl != nullptr) return Next();
  options_ = options();
  {
    MutexLock lock(&mu_);
    clock_ = options_.environment.clock;
  }
  watch_ = options_.cancellation->Watch(
      [weak = weak_from_this()](const absl::Status& reason) {
        const auto self = weak.lock();
        if (self != nullptr) self->Break(reason);
      });
  if (!blocks()) return Init();
  options_.environment.queue->Schedule(
      [self = shared_from_this()] { self->Init(); });
}

// Returns true if the caller is busy now, and must go on.
bool NcclGroup::Enter(Launch& launch) {
  absl::Status failure;
  {
    MutexLock lock(&mu_);
    if (failure_.ok()) {
      waiting_.push_back(std::move(launch));
      return !std::exchange(is_busy_, true);
    }
    failure = failure_;
  }
  std::move(launch.launched)(std::move(failure));
  return false;
}

void NcclGroup::Init() {
  if (!status().ok()) return Next();
  auto comms =
      options_.nccl->CommInitRanks(options_.id, options_.size, options_.ranks);
  if (!comms.ok()) {
    Break(comms.status());
    return Next();
  }
  comms_ = *std::move(comms);
  AwaitReady([this](const absl::Status& /*failed*/) { NextInTurn(); });
}

void NcclGroup::NextInTurn() {
  RunOnTrampoline([self = shared_from_this()] { self->Next(); });
}

void NcclGroup::NextByQueue() {
  options_.environment.queue->Schedule(
      [self = shared_from_this()] { self->Next(); });
}

void NcclGroup::Next() {
  const auto self = shared_from_this();
  NcclTurns& turns = options_.nccl->turns();
  bool has_failed = false;
  NcclTicket ticket;
  {
    MutexLock lock(&mu_);
    has_failed = !failure_.ok();
    if (!has_failed) {
      if (!MayBegin()) {
        is_busy_ = false;
        return;
      }
      launch_ = std::move(waiting_.front());
      waiting_.pop_front();
      ticket = order_.Next(launch_.key);
      awaited_turn_ = &turns;
    }
  }
  if (has_failed) return Fail(/*begun=*/nullptr);
  turns.Take(this, GpusOf(options_.ranks),
             [self, ticket] { self->Begin(ticket); });
  // An earlier Break() has found no turn to leave.
  if (!status().ok()) LeaveTurn(turns);
}

// True if a launch waits that need not wait for the end of others.
bool NcclGroup::MayBegin() const {
  if (waiting_.empty()) return false;
  if (num_running_ < options_.most_running) return true;
  const bool is_of_one_process =
      static_cast<int>(options_.ranks.size()) == options_.size;
  return is_of_one_process && !blocks();
}

// Leaves the turn, and fails. Does nothing if another thread has left it.
void NcclGroup::LeaveTurn(NcclTurns& turns) {
  if (!turns.Leave(this)) return;
  FailBeforeBegin(std::move(launch_));
}

void NcclGroup::Begin(const NcclTicket& ticket) {
  // Moved out: captures of the launch may keep this object alive.
  Launch launch = std::move(launch_);
  bool has_failed = false;
  {
    MutexLock lock(&mu_);
    awaited_turn_ = nullptr;
    has_failed = !failure_.ok();
    if (!has_failed && num_running_++ == 0) LookLater();
  }
  if (has_failed) {
    options_.nccl->turns().GiveBack(this);
    return FailBeforeBegin(std::move(launch));
  }
  const auto parts = std::move(launch.begin)(ticket, comms_);
  absl::Status status = parts.status();
  const bool is_empty = parts.ok() && std::all_of(parts->begin(), parts->end(),
                                                  [](const NcclPart& part) {
                                                    return part.calls.empty();
                                                  });
  if (status.ok() && !is_empty) status = options_.nccl->Launch(*parts);
  if (!status.ok()) Break(std::move(status));
  AwaitReady([this, launched = std::move(launch.launched)](
                 const absl::Status& failed) mutable {
    NcclTurns& turns = options_.nccl->turns();
    if (!failed.ok()) {
      turns.GiveBack(this);
      return Fail(std::move(launched));
    }
    // Other launches on these GPUs must follow the work that `launched` puts on
    // the streams.
    std::move(launched)(absl::OkStatus());
    turns.GiveBack(this);
    NextInTurn();
  });
}

void NcclGroup::AwaitReady(StatusCallback ready) {
  ready_ = std::move(ready);
  look_after_ = kFirstLook;
  Look(kLooksAtOnce);
}

void NcclGroup::Look(int num_requests) {
  if (status().ok()) {
    const absl::StatusOr<bool> are_ready = AreReadySoon(num_requests);
    if (are_ready.ok() && !*are_ready) {
      Clock& clock = *options_.environment.clock;
      const absl::Time next = clock.Now() + look_after_;
      look_after_ = std::min(2 * look_after_, kLastLook);
      clock.CallAt(next, [self = shared_from_this()] { self->Look(1); });
      return;
    }
    if (!are_ready.ok()) Break(are_ready.status());
  }
  StatusCallback ready = std::move(ready_);
  std::move(ready)(status());
}

absl::StatusOr<bool> NcclGroup::AreReadySoon(int num_requests) {
  absl::StatusOr<bool> are_ready = false;
  for (int i = 0; i < num_requests && are_ready.ok() && !*are_ready; ++i) {
    are_ready = AreReady(*options_.nccl, comms_);
  }
  return are_ready;
}

void NcclGroup::Break(absl::Status reason) {
  NcclTurns* turns = nullptr;
  {
    MutexLock lock(&mu_);
    if (!failure_.ok()) return;
    failure_ =
        reason.ok() ? absl::CancelledError("cancelled") : std::move(reason);
    turns = awaited_turn_;
    // The busy thread checks `failure_` before its next step.
    if (is_busy_ && turns == nullptr) return;
    is_busy_ = true;
  }
  if (turns == nullptr) return Fail(/*begun=*/nullptr);
  // Does nothing if the turn has just come, or is not awaited yet: Begin() or
  // Next() then fails.
  LeaveTurn(*turns);
}

void NcclGroup::FailBeforeBegin(Launch launch) {
  {
    MutexLock lock(&mu_);
    waiting_.push_front(std::move(launch));
  }
  Fail(/*begun=*/nullptr);
}

// Leaves nobody busy, but nothing begins afterwards. The abort may take long.
// Only `begun` waits for it, because NCCL may still put its calls on streams.
void NcclGroup::Fail(StatusCallback begun) {
  std::deque<Launch> waiting;
  absl::Status failure;
  {
    MutexLock lock(&mu_);
    waiting.swap(waiting_);
    failure = failure_;
  }
  auto refuse = [waiting = std::move(waiting), failure]() mutable {
    for (Launch& launch : waiting) std::move(launch.launched)(failure);
  };
  auto abort = [self = shared_from_this(), begun = std::move(begun),
                failure]() mutable {
    if (!self->comms_.empty()) {
      self->options_.nccl->Abort(self->comms_).IgnoreError();
    }
    self->comms_.clear();
    {
      MutexLock lock(&self->mu_);
      self->is_busy_ = false;
    }
    if (begun != nullptr) std::move(begun)(std::move(failure));
  };
  if (comms_.empty()) {
    std::move(abort)();
    return std::move(refuse)();
  }
  WorkQueue& queue = *options_.environment.queue;
  queue.Schedule(std::move(refuse));
  queue.Schedule(std::move(abort));
}

void NcclGroup::Ended() {
  {
    MutexLock lock(&mu_);
    if (--num_running_ == 0) clock_->Cancel(alarm_);
    if (is_busy_ || waiting_.empty()) return;
    is_busy_ = true;
  }
  NextByQueue();
}

void NcclGroup::LookLater() {
  // An alarm remains if that of an earlier launch rings late.
  clock_->Cancel(alarm_);
  alarm_ =
      clock_->CallAt(clock_->Now() + kLookEvery,
                     [self = shared_from_this()] { self->LookForErrors(); });
}

void NcclGroup::LookForErrors() {
  {
    MutexLock lock(&mu_);
    if (num_running_ == 0) return;
    LookLater();
    // The busy thread checks NCCL, too.
    if (is_busy_ || !failure_.ok()) return;
    is_busy_ = true;
  }
  const absl::StatusOr<bool> are_ready = AreReady(*options_.nccl, comms_);
  if (!are_ready.ok()) Break(are_ready.status());
  // The clock's thread must not run a launch that blocks.
  if (blocks()) return NextByQueue();
  NextInTurn();
}

}  // namespace tutti
