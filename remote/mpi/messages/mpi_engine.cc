#include "remote/mpi/messages/mpi_engine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status_macros.h"
#include "remote/mpi/messages/mpi_requests.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

// Pauses between looks, while MPI has work to continue, or for messages of
// processes that cannot ring. Each pause is twice the one before. If a caller
// waits, it is a sixteenth of the time so far: a message is found late by at
// most that share.
constexpr absl::Duration kShortestPause = DefaultTime("least pause");
constexpr absl::Duration kLongestPause = DefaultTime("pause");
constexpr absl::Duration kLongestPauseOfMpi = DefaultTime("MPI pause");
constexpr double kGrowth = 2;
constexpr double kGrowthIfExpected = 1 + 1. / 16;

// Returns, for example, "rank 2 (why), rank 3 (why)", or empty.
std::string Names(const std::map<int, absl::Status>& lost) {
  return absl::StrJoin(lost, ", ", [](std::string* text, const auto& entry) {
    absl::StrAppend(text, "rank ", entry.first, " (", entry.second.message(),
                    ")");
  });
}

// Prints the process id: the rank is not known yet.
void SayThatMpiIsLate(absl::Duration limit) {
  std::fprintf(stderr,
               "tutti: MPI: process %d has waited %s for MPI to come up, which "
               "needs all processes of the job: one may stand still, or not "
               "have come; it waits on\n",
               static_cast<int>(getpid()), absl::FormatDuration(limit).c_str());
}

// Objects to whose memory the host program's MPI may still write.
struct Left {
  std::vector<std::shared_ptr<MpiPoller>> pollers;
  MpiRequests under_way;
};

// Returns the objects, which are never destroyed. Static objects are destroyed
// at exit, when the libraries that pollers use may be gone, such as a GPU
// runtime.
std::vector<Left>& LeftToMpi() {
  static auto& left = *new std::vector<Left>;
  return left;
}

}  // namespace

MpiEngine::MpiEngine(Options options) : options_(std::move(options)) {}

MpiEngine::~MpiEngine() {
  Shutdown();
  if (world_.is_ours || (pollers_.empty() && under_way_.size() == 0)) return;
  LeftToMpi().push_back({std::move(pollers_), std::move(under_way_)});
}

absl::Status MpiEngine::Start() {
  if (options_.environment.clock == nullptr) {
    return absl::InvalidArgumentError("the environment lacks a clock");
  }
  {
    MutexLock lock(&mu_);
    if (phase_ != Phase::kNew) {
      return absl::FailedPreconditionError(
          "MPI has been started before by this runtime");
    }
  }
  absl::Status started;
  BlockingCounter is_up(1);
  thread_ =
      std::thread([&] { Run(&started, [&] { is_up.DecrementCount(); }); });
  BlockingCounter is_said(1);
  Clock& clock = *options_.environment.clock;
  const Clock::AlarmId alarm =
      clock.CallAt(clock.Now() + options_.lost_limit, [&] {
        SayThatMpiIsLate(options_.lost_limit);
        is_said.DecrementCount();
      });
  is_up.Wait();
  if (!clock.Cancel(alarm)) is_said.Wait();
  if (!started.ok()) thread_.join();
  return started;
}

void MpiEngine::Shutdown() {
  {
    MutexLock lock(&mu_);
    if (phase_ != Phase::kRunning) return;
    must_end_ = true;
  }
  mailbox_->Ring();
  if (thread_.joinable()) thread_.join();
}

void MpiEngine::CallLost(int rank, const absl::Status& why) {
  MutexLock lock(&mu_);
  lost_.try_emplace(rank, why);
  some_are_lost_ = true;
}

void MpiEngine::CallFound(int rank) {
  MutexLock lock(&mu_);
  lost_.erase(rank);
  some_are_lost_ = !lost_.empty();
}

std::string MpiEngine::WhoIsLost() const {
  MutexLock lock(&mu_);
  return Names(lost_);
}

absl::StatusOr<const MpiWorld*> MpiEngine::world() const {
  MutexLock lock(&mu_);
  if (phase_ == Phase::kRunning) return &world_;
  return absl::FailedPreconditionError(
      phase_ == Phase::kNew
          ? "MPI has not been initialized; start the MPI runtime first"
          : "MPI has not been initialized; the MPI runtime was shut down");
}

void MpiEngine::Add(std::shared_ptr<MpiPoller> poller) {
  pollers_.push_back(std::move(poller));
}

void MpiEngine::Ring(int rank) {
  if (Doorbell* const bell = neighbours_.doorbell_of(rank)) bell->Ring();
}

// --- On MPI's thread ---------------------------------------------------------

void MpiEngine::Run(absl::Status* started, Work on_start) {
  *started = BringUp();
  const bool is_up = started->ok();
  if (is_up) {
    mailbox_->RingAt(neighbours_.doorbell_of(world_.rank));
  } else {
    mailbox_->Close();
  }
  {
    MutexLock lock(&mu_);
    phase_ = is_up ? Phase::kRunning : Phase::kOver;
  }
  std::move(on_start)();
  // Leaves MPI initialised until the process ends: other processes may be
  // waiting in it.
  if (!is_up) return;

  absl::Time last_busy = absl::InfinitePast();
  pause_ = kShortestPause;
  while (true) {
    MpiPoller::State state =
        RunPosted() ? MpiPoller::State::kBusy : MpiPoller::State::kIdle;
    state = std::max(state, PollAll(/*is_last=*/false));
    const absl::Time now = options_.environment.clock->Now();
    if (some_are_lost_.load(std::memory_order_relaxed)) LookWhoHolds(now);
    if (state == MpiPoller::State::kBusy) {
      last_busy = now;
      pause_ = kShortestPause;
      continue;
    }
    if (CanEnd(now)) break;
    if (now < last_busy + SpinLimit(state)) {
      sched_yield();
    } else if (Sleep()) {
      last_busy = options_.environment.clock->Now();
    }
  }
  TakeDown();
}

absl::Status MpiEngine::BringUp() {
  if (options_.on_thread != nullptr) options_.on_thread();
  RETURN_IF_ERROR(world_.BringUp(options_));
  if (world_.all_are_ours) ring_ = std::make_unique<MpiRing>();
  absl::Status status = MeetLocal();
  world_.MakeErrorsFatal();  // No way to continue.
  return status;
}

absl::Status MpiEngine::MeetLocal() {
  MPI_Comm local = MPI_COMM_NULL;
  RETURN_IF_ERROR(
      options_.shares_memory
          ? MpiStatus(
                MPI_Comm_split_type(world_.messages, MPI_COMM_TYPE_SHARED,
                                    /*key=*/world_.rank, MPI_INFO_NULL, &local),
                "MPI_Comm_split_type")
          : MpiStatus(MPI_Comm_split(world_.messages, /*color=*/world_.rank,
                                     /*key=*/0, &local),
                      "MPI_Comm_split"));
  MPI_Comm_rank(local, &world_.local_rank);
  MPI_Comm_size(local, &world_.local_size);
  world_.local_processors = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  MpiNeighbours::Place place{
      .ranks = std::vector<int>(world_.local_size),
      .rank = world_.rank,
      .size = world_.size,
      .open = options_.same_host_memory && !world_.is_cuda_aware};
  absl::Status status =
      MpiStatus(MPI_Allgather(&world_.rank, 1, MPI_INT, place.ranks.data(), 1,
                              MPI_INT, local),
                "MPI_Allgather");
  if (status.ok()) {
    status = neighbours_.Share(local, place, *options_.environment.random);
  }
  MPI_Comm_free(&local);
  return status;
}

void MpiEngine::TakeDown() {
  if (!all_have_come_) {
    std::fprintf(
        stderr,
        "tutti: MPI: rank %d has waited %s for others to end that are "
        "lost: %s; %s\n",
        world_.rank, absl::FormatDuration(options_.lost_limit).c_str(),
        WhoIsLost().c_str(),
        world_.is_ours ? "it ends the job" : "it goes on without them");
    if (world_.is_ours) EndJob();
    return;
  }
  for (const auto& poller : pollers_) poller->Stop();
  under_way_.Poll();
  ring_ = nullptr;
  world_.TakeDown();
}

void MpiEngine::EndJob() {
  std::fflush(stdout);  // MPI does not flush.
  MPI_Abort(MPI_COMM_WORLD, /*errorcode=*/1);
}

absl::Duration MpiEngine::Wait::Look(absl::Time now) {
  // In a longer time this process stood still.
  waited_ += std::clamp(now - last_look_, absl::ZeroDuration(),
                        DefaultTime("stood still"));
  last_look_ = now;
  return waited_;
}

// Reports the ranks that keep MPI: no one else can. Waits for MPI have no end
// until those ranks go on.
void MpiEngine::LookWhoHolds(absl::Time now) {
  Lost holders;
  {
    MutexLock lock(&mu_);
    holders = lost_;
  }
  std::erase_if(holders, [this](const auto& lost) {
    return absl::c_none_of(pollers_, [&](const auto& poller) {
      return poller->IsHeldBy(lost.first);
    });
  });
  if (holders.empty()) return wait_for_holders_.Reset();
  if (wait_for_holders_.Look(now) < options_.lost_limit) return;
  if (std::exchange(has_named_holders_, true)) return;
  std::fprintf(stderr,
               "tutti: MPI: rank %d has waited %s for tensors of collectives "
               "that have failed, which MPI keeps until those go on that are "
               "lost: %s; %s\n",
               world_.rank, absl::FormatDuration(options_.lost_limit).c_str(),
               Names(holders).c_str(),
               world_.is_ours ? "it ends the job" : "it waits on");
  if (world_.is_ours) EndJob();
}

// Keeps polling meanwhile: a rank called lost may still say goodbye.
bool MpiEngine::CanEnd(absl::Time now) {
  {
    MutexLock lock(&mu_);
    if (!must_end_) return false;
  }
  if (!is_ending_) {
    is_ending_ = true;
    MPI_Ibarrier(world_.messages, &all_end_);
  }
  int all_end = 0;
  MPI_Test(&all_end_, &all_end, MPI_STATUS_IGNORE);  // Also after the end.
  const absl::Duration waited = wait_for_end_.Look(now);
  if (all_end == 0 && (waited < options_.lost_limit || WhoIsLost().empty())) {
    return false;
  }
  if (!mailbox_->CloseIfEmpty()) return false;
  all_have_come_ = all_end != 0;
  MutexLock lock(&mu_);
  phase_ = Phase::kOver;
  return true;
}

bool MpiEngine::RunPosted() {
  std::vector<Work> works = mailbox_->TakeAll();
  for (Work& work : works) std::move(work)();
  return !works.empty();
}

MpiPoller::State MpiEngine::PollAll(bool is_last) {
  MpiPoller::State state =
      under_way_.Poll() ? MpiPoller::State::kBusy : MpiPoller::State::kIdle;
  for (const auto& poller : pollers_) {
    state = std::max(state, poller->Poll(is_last));
  }
  return state;
}

// Returns how long to spin. Where processes share processors, a spinning
// process takes time from those that have the bytes.
absl::Duration MpiEngine::SpinLimit(MpiPoller::State state) const {
  if (world_.local_processors < world_.local_size) return options_.spin_limit;
  switch (state) {
    case MpiPoller::State::kMoving:
      return options_.moving_spin_limit;
    case MpiPoller::State::kRunning:
      return options_.running_spin_limit;
    default:
      return options_.spin_limit;
  }
}

// Sleeps; returns whether it was rung. Polls twice before: a look of Open MPI
// that finds nothing may fetch what the next look finds. After a ring the
// message may lie behind many others, which MPI fetches a little at a time.
bool MpiEngine::Sleep() {
  Doorbell& doorbell = *neighbours_.doorbell_of(world_.rank);
  doorbell.PrepareToSleep();
  const MpiPoller::State state =
      std::max(PollAll(/*is_last=*/true), PollAll(/*is_last=*/true));
  bool is_due = state == MpiPoller::State::kBusy || !mailbox_->empty();
  {
    MutexLock lock(&mu_);
    is_due = is_due || (must_end_ && !is_ending_);
  }
  if (is_due) {
    doorbell.StayAwake();
    return false;
  }
  // Ending processes do not ring.
  const bool is_waiting = is_ending_ || state >= MpiPoller::State::kWaiting;
  if (!is_waiting && neighbours_.all_ring()) {
    return doorbell.SleepUnlessRung(DefaultTime("ring pause"));
  }
  const bool is_expected = state == MpiPoller::State::kExpecting;
  const absl::Duration pause = pause_;
  pause_ = std::min(pause * (is_expected ? kGrowthIfExpected : kGrowth),
                    is_waiting ? kLongestPauseOfMpi : kLongestPause);
  return doorbell.SleepUnlessRung(pause);
}

}  // namespace tutti
