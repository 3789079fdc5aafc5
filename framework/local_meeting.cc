#include "framework/local_meeting.h"

#include <algorithm>
#include <utility>
#include <vector>

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
LocalMeeting::LocalMeeting(Cancellation& cancellation) {
  cancellation.Watch([this](const absl::Status& reason) { Fail(reason); });
}

absl::Span<const Attendee> LocalMeeting::Join(const CollectiveContext& context,
                                              StatusCallback done) {
  const CollectiveParams& params = *context.params;
  return JoinAt(PlaceOf(params), static_cast<size_t>(params.task->num_local),
                context, std::move(done));
}

absl::Span<const Attendee> LocalMeeting::JoinAt(
    size_t place, size_t size, const CollectiveContext& context,
    StatusCallback done) {
  absl::Status failure;
  {
    MutexLock lock(&mu_);
    if (failure_.ok()) {
      if (num_awaited_ == 0) {
        num_awaited_ = size;
        attendees_.resize(size);
      }
      Attendee& mine = attendees_[place];
      mine.context = &context;
      mine.done = std::move(done);
      if (--num_awaited_ > 0) return {};
      return attendees_;
    }
    failure = failure_;
  }
  std::move(done)(std::move(failure));
  return {};
}

void LocalMeeting::Adjourn(absl::Status status) {
  RunInTurn([this, status = std::move(status)] {
    for (Attendee& member : All()) {
      // The last one to leave takes the execution, and so this object, with it.
      StatusCallback done = std::move(member.done);
      std::move(done)(status);
    }
  });
}

absl::Span<Attendee> LocalMeeting::All() {
  MutexLock lock(&mu_);
  return absl::MakeSpan(attendees_);
}

void LocalMeeting::Fail(const absl::Status& reason) {
  std::vector<Attendee> attendees;
  {
    MutexLock lock(&mu_);
    failure_ = reason;
    if (num_awaited_ == 0) return;
    num_awaited_ = 0;
    attendees = std::move(attendees_);
  }
  for (Attendee& attendee : attendees) {
    if (attendee.done != nullptr) std::move(attendee.done)(reason);
  }
}

}  // namespace tutti
