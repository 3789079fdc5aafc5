#include "framework/executor/local_meeting.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/executor/executor_core.h"
#include "tutti/params.h"

namespace tutti {
namespace {

// Protocol by which members meet without a lock:
//
//  - Each member writes its Attendee, shows itself there (kHere), and only then
//    adds itself to the count. A reader of the count sees all counted members.
//     Others may be here already, about to be counted.
//  - The count decides. The member that raises it to the size of the group has
//    all members. Nobody else touches them before that member lets the next
//    execution in, by setting the count to 0.
//  - A failure is a bit of the count (kFailed). Fail() ends the members counted
//    before it, unless all members are: then the last one ends them. A member
//    that adds itself after the bit takes itself out and ends its call. Fail()
//    cannot tell such members from the counted ones. It looks again until no
//    more are here than were counted: members get out within a few
//    instructions.

// Returns the member's place among the members of this process.
size_t PlaceOf(const CollectiveParams& params) {
  const auto& is_local = params.task->is_local;
  const auto rank = static_cast<size_t>(params.default_rank);
  if (params.task->num_local == params.group->size()) return rank;
  return static_cast<size_t>(std::count(
      is_local.begin(), is_local.begin() + params.default_rank, true));
}

template <typename... Args>
absl::Status WrongRows(const CollectiveParams& params, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(
      Name(params.instance->type), ", group ", params.group->key, ", instance ",
      params.instance->key, ": rank ", params.default_rank, args...));
}

absl::Status OtherRows(const CollectiveParams& a, const CollectiveParams& b) {
  const std::vector<int64_t>& rows = a.instance->rows;
  const auto [of_a, of_b] = absl::c_mismatch(rows, b.instance->rows);
  return WrongRows(a, " says that rank ", of_a - rows.begin(), " has ", *of_a,
                   " rows, rank ", b.default_rank, " that it has ", *of_b);
}

// Checks that each member receives what each other member sends to it.
absl::Status CheckSameExchange(absl::Span<const Attendee> attendees) {
  for (const Attendee& sender : attendees) {
    const CollectiveParams& from = *sender.context->params;
    for (const Attendee& receiver : attendees) {
      const CollectiveParams& to = *receiver.context->params;
      const auto rows = [&](const CollectiveParams& params) {
        return BlockRows(*params.instance, params.group->size(),
                         from.default_rank, to.default_rank);
      };
      if (rows(from) == rows(to)) continue;
      return WrongRows(from, " sends ", rows(from), " rows to rank ",
                       to.default_rank, ", which says that it receives ",
                       rows(to));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSameRows(absl::Span<const Attendee> attendees) {
  const CollectiveParams& first = *attendees[0].context->params;
  if (ExchangesBlocks(first.instance->type)) {
    return CheckSameExchange(attendees);
  }
  for (const Attendee& attendee : attendees.subspan(1)) {
    const CollectiveParams& params = *attendee.context->params;
    if (params.instance == first.instance ||
        params.instance->rows == first.instance->rows) {
      continue;
    }
    return OtherRows(first, params);
  }
  return absl::OkStatus();
}

std::vector<Attendee*> WhoIsHere(std::vector<Attendee>& attendees) {
  std::vector<Attendee*> here;
  for (Attendee& attendee : attendees) {
    const auto state = attendee.state.load(std::memory_order_acquire);
    if (state == Attendee::State::kHere) here.push_back(&attendee);
  }
  return here;
}

}  // namespace

// Watches the execution, which owns this object. Two kinds of users keep the
// execution alive: a thread that cancels it, and a member until its `done` has
// run.
LocalMeeting::LocalMeeting(Cancellation& cancellation)
    : cancellation_(cancellation) {
  cancellation.Watch([this](const absl::Status& reason) { Fail(reason); });
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
  if (before >= kFailed) {  // Fail() leaves this member alone.
    done = std::move(mine.done);
    mine.state.store(Attendee::State::kAway, std::memory_order_release);
    std::move(done)(cancellation_.status());
    return {};
  }
  if (before + 1 < size) return {};
  if (!context.params->instance->rows_are_given) return attendees;
  absl::Status status = CheckSameRows(attendees);
  if (status.ok()) return attendees;
  Adjourn(std::move(status));
  return {};
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
  RunOnTrampoline([this, status = std::move(status)] {
    // Read before: the last member to leave frees the execution and this
    // object.
    const absl::Span<Attendee> attendees =
        absl::MakeSpan(*attendees_.load(std::memory_order_relaxed));
    const CollectiveContext& first = *attendees[0].context;
    // Leaves together only where all members are here. Members elsewhere would
    // hear of a failure between the last `done` and the end of all leaving.
    std::optional<ExecutorCore::JointEnd> end;
    if (first.params->task->num_local == first.params->group->size()) {
      end.emplace(*first.execution);
    }
    for (Attendee& attendee : attendees) {
      attendee.state.store(Attendee::State::kAway, std::memory_order_relaxed);
    }
    // Opens the meeting to the next execution. A failure of this one now finds
    // nobody here.
    num_here_.store(0, std::memory_order_release);
    for (Attendee& attendee : attendees) {
      StatusCallback done = std::move(attendee.done);
      std::move(done)(status);
    }
  });
}

// Ends the counted members, which stay here. A member that shows itself
// meanwhile takes itself out again within a few instructions.
void LocalMeeting::Fail(const absl::Status& reason) {
  const uint64_t num_here =
      num_here_.fetch_or(kFailed, std::memory_order_acq_rel);
  Attendees* const attendees = attendees_.load(std::memory_order_acquire);
  if (attendees == nullptr || num_here == attendees->size()) return;
  std::vector<Attendee*> here = WhoIsHere(*attendees);
  while (here.size() > num_here) {
    std::this_thread::yield();
    here = WhoIsHere(*attendees);
  }
  for (Attendee* const attendee : here) {
    StatusCallback done = std::move(attendee->done);
    std::move(done)(reason);
  }
}

}  // namespace tutti
