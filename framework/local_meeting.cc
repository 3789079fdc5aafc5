#include "framework/local_meeting.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "framework/collective_executor.h"
#include "framework/params.h"
#include "framework/run_in_turn.h"

namespace tutti {

namespace {

// The member's place among those of this process.
size_t PlaceOf(const CollectiveParams& params) {
  const auto& is_local = params.task->is_local;
  const auto rank = static_cast<size_t>(params.default_rank);
  if (params.task->num_local == params.group->size()) return rank;
  return static_cast<size_t>(std::count(
      is_local.begin(), is_local.begin() + params.default_rank, true));
}

}  // namespace

// The execution owns this object, and whoever cancels it keeps it.
LocalMeeting::LocalMeeting(Cancellation& cancellation)
    : cancellation_(cancellation) {
  cancellation.Watch([this](const absl::Status&) { Fail(); });
}

absl::Span<const Attendee> LocalMeeting::Join(const CollectiveContext& context,
                                              StatusCallback&& done) {
  const CollectiveParams& params = *context.params;
  return JoinAt(PlaceOf(params), static_cast<size_t>(params.task->num_local),
                context, std::move(done));
}

absl::Span<const Attendee> LocalMeeting::JoinAt(
    size_t place, size_t size, const CollectiveContext& context,
    StatusCallback&& done) {
  Attendees& attendees = AttendeesFor(size);
  Attendee& mine = attendees[place];
  mine.context = &context;
  mine.done = std::move(done);
  mine.state.store(Attendee::State::kHere, std::memory_order_release);
  const uint64_t before = num_here_.fetch_add(1, std::memory_order_acq_rel);
  if (before >= kFailed) {  // It was too early to see this one, or saw it.
    EndIfHere(mine);
    return {};
  }
  if (before + 1 < size) return {};
  return attendees;
}

LocalMeeting::Attendees& LocalMeeting::AttendeesFor(size_t size) {
  Attendees* const attendees = attendees_.load(std::memory_order_acquire);
  if (attendees != nullptr) return *attendees;
  MutexLock lock(&mu_);
  if (made_attendees_ == nullptr) {
    made_attendees_ = std::make_unique<Attendees>(size);
    attendees_.store(made_attendees_.get(), std::memory_order_release);
  }
  return *made_attendees_;
}

void LocalMeeting::Adjourn(absl::Status status) {
  RunInTurn([this, status = std::move(status)] {
    // With the last one to leave the execution goes, and so this object.
    const absl::Span<Attendee> attendees =
        absl::MakeSpan(*attendees_.load(std::memory_order_relaxed));
    const CollectiveExecutor::JointEnd end(*attendees[0].context->execution);
    num_here_.store(0, std::memory_order_relaxed);  // For the next execution.
    for (Attendee& attendee : attendees) {
      attendee.state.store(Attendee::State::kAway, std::memory_order_relaxed);
    }
    for (Attendee& attendee : attendees) {
      StatusCallback done = std::move(attendee.done);
      std::move(done)(status);
    }
  });
}

void LocalMeeting::Fail() {
  const uint64_t before =
      num_here_.fetch_or(kFailed, std::memory_order_acq_rel);
  Attendees* const attendees = attendees_.load(std::memory_order_acquire);
  if (attendees == nullptr || before == attendees->size()) return;
  for (Attendee& attendee : *attendees) EndIfHere(attendee);
}

void LocalMeeting::EndIfHere(Attendee& attendee) {
  auto here = Attendee::State::kHere;
  if (!attendee.state.compare_exchange_strong(here, Attendee::State::kTaken,
                                              std::memory_order_acq_rel)) {
    return;
  }
  StatusCallback done = std::move(attendee.done);
  std::move(done)(cancellation_.status());
}

}  // namespace tutti
