#include "resolvers/leader/leader_poll.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/callbacks.h"
#include "framework/base/peer_status.h"

namespace tutti {
namespace {

constexpr size_t kMaxTextBytes = 4096;

std::string Milliseconds(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(duration), " ms");
}

}  // namespace

LeaderPoll::~LeaderPoll() {
  for (const auto& [id, poll] : polls_) clock_->Cancel(poll->alarm);
}

void LeaderPoll::Begin(InstanceId id, int leader) {
  MutexLock lock(&mu_);
  PollPtr& poll = polls_[id];
  if (poll != nullptr && poll->leader == leader) {
    ++poll->num_calls;
    return;
  }
  const int num_before = poll == nullptr ? 0 : poll->num_calls;
  if (poll != nullptr) clock_->Cancel(poll->alarm);
  poll = std::make_shared<Poll>();
  poll->leader = leader;
  poll->num_calls = num_before + 1;
  poll->requested_at = clock_->Now();
  poll->cancellation = std::make_shared<Cancellation>();
  SchedulePoll(id, poll, DefaultTime("first poll"));
}

void LeaderPoll::End(InstanceId id) {
  PollPtr ended;
  {
    MutexLock lock(&mu_);
    const auto found = polls_.find(id);
    if (found == polls_.end() || --found->second->num_calls > 0) return;
    ended = std::move(found->second);
    polls_.erase(found);
    clock_->Cancel(ended->alarm);
  }
  ended->cancellation->Cancel(absl::CancelledError("nobody waits any more"));
}

void LeaderPoll::SchedulePoll(InstanceId id, const PollPtr& poll,
                              absl::Duration delay) {
  poll->alarm =
      clock_->CallAt(clock_->Now() + delay,
                     IfAlive(weak_from_this(), &LeaderPoll::Request, id, poll));
}

bool LeaderPoll::IsPresent(InstanceId id, const PollPtr& poll) const {
  const auto found = polls_.find(id);
  return found != polls_.end() && found->second == poll;
}

void LeaderPoll::Request(InstanceId id, const PollPtr& poll) {
  {
    MutexLock lock(&mu_);
    if (!IsPresent(id, poll)) return;
  }
  proto::ControlRequest request;
  request.mutable_describe_waiting()->set_group_key(id.group_key);
  request.mutable_describe_waiting()->set_instance_key(id.instance_key);
  channel_->Call(poll->leader, std::move(request),
                 {.deadline = clock_->Now() + DefaultTime("poll answer"),
                  .cancellation = poll->cancellation},
                 IfAlive(weak_from_this(), &LeaderPoll::OnAnswer, id, poll));
}

void LeaderPoll::OnAnswer(InstanceId id, const PollPtr& poll,
                          ControlAnswer answer) {
  MutexLock lock(&mu_);
  if (!IsPresent(id, poll)) return;
  if (answer.ok() && answer->has_describe_waiting() &&
      answer->describe_waiting().text().size() <= kMaxTextBytes) {
    poll->text = Printable(answer->describe_waiting().text());
    poll->answered_at = clock_->Now();
  }
  SchedulePoll(id, poll, DefaultTime("poll"));
}

std::string LeaderPoll::Describe(InstanceId id) {
  MutexLock lock(&mu_);
  const auto found = polls_.find(id);
  if (found == polls_.end()) return "";
  const Poll& poll = *found->second;
  const std::string leader = cluster_.Label(poll.leader);
  const absl::Time now = clock_->Now();
  if (!poll.text.has_value()) {
    return absl::StrCat("asked the leader, ", leader, ", ",
                        Milliseconds(now - poll.requested_at),
                        " ago, which has not answered");
  }
  const absl::Duration age = now - poll.answered_at;
  if (age <= DefaultTime("poll is old") || poll.text->empty())
    return *poll.text;
  return absl::StrCat(*poll.text, " (as the leader, ", leader, ", said ",
                      Milliseconds(age), " ago)");
}

}  // namespace tutti
