#include "implementations/local_meeting.h"

#include <memory>
#include <utility>
#include <vector>

#include "framework/execution.h"
#include "framework/params.h"

namespace tutti {

std::vector<Attendee> LocalMeeting::Join(const CollectiveContext& context,
                                         StatusCallback done) {
  const auto size = static_cast<size_t>(context.params->group->size());
  Cancellation& cancellation = context.execution->cancellation;
  std::vector<Attendee> all;
  Cancellation::WatchId watch = 0;
  bool is_first = false;
  absl::Status failure;
  {
    MutexLock lock(&mu_);
    failure = failure_;
    if (failure.ok()) {
      attendees_.resize(size);
      attendees_[static_cast<size_t>(context.rank())] = {
          &context, std::exchange(done, nullptr)};
      is_first = num_here_ == 0;
      if (++num_here_ == size) {
        over_ = true;
        all = std::move(attendees_);
        watch = watch_;
      }
    }
  }
  if (watch != 0) cancellation.Unwatch(watch);
  if (done != nullptr) std::move(done)(std::move(failure));
  if (is_first && all.empty()) Watch(&cancellation);
  return all;
}

void LocalMeeting::Watch(Cancellation* cancellation) {
  // The execution keeps this object; a watcher that owned it would be a cycle.
  const Cancellation::WatchId watch = cancellation->Watch(
      [weak = weak_from_this()](const absl::Status& reason) {
        if (const auto self = weak.lock()) self->End(reason);
      });
  MutexLock lock(&mu_);
  watch_ = watch;
}

void LocalMeeting::End(const absl::Status& reason) {
  std::vector<Attendee> attendees;
  {
    MutexLock lock(&mu_);
    if (over_) return;
    over_ = true;
    failure_ = reason;
    attendees = std::move(attendees_);
  }
  for (Attendee& attendee : attendees) {
    if (attendee.done != nullptr) std::move(attendee.done)(reason);
  }
}

}  // namespace tutti
