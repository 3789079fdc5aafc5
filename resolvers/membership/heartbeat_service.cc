#include "resolvers/membership/heartbeat_service.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/callbacks.h"

namespace tutti {
namespace {

// Limit per task. A task has one heartbeat under way, and two while one crosses
// the answer to another.
constexpr int kMaxOfTask = 8;

}  // namespace

HeartbeatService::~HeartbeatService() {
  for (auto& [id, waiting] : waiting_) {
    clock_->Cancel(waiting.alarm);
    std::move(waiting.done)(absl::CancelledError("the task shuts down"));
  }
}

ControlAnswer HeartbeatService::Reply() const {
  proto::ControlReply reply;
  reply.mutable_heartbeat()->set_incarnation(incarnation_);
  return reply;
}

void HeartbeatService::Answer(const ControlCaller& caller,
                              const proto::Heartbeat& message,
                              std::shared_ptr<Cancellation> withdrawn,
                              ControlDone done) {
  const int hold_ms = message.hold_ms();
  const auto most = absl::ToInt64Milliseconds(DefaultTime("most hold"));
  if (hold_ms < 0 || hold_ms > most) {
    return std::move(done)(absl::InvalidArgumentError(absl::StrCat(
        "heartbeat.hold_ms is ", hold_ms, "; wanted 0 to ", most)));
  }
  if (hold_ms == 0) return std::move(done)(Reply());
  uint64_t id = 0;
  ControlDone refused;
  {
    MutexLock lock(&mu_);
    int& num_of_task = num_of_task_[caller.task];
    if (num_of_task < kMaxOfTask) {
      ++num_of_task;
      id = ++last_id_;
      const Clock::AlarmId alarm = clock_->CallAt(
          clock_->Now() + absl::Milliseconds(hold_ms),
          IfAlive(weak_from_this(), &HeartbeatService::End, id, Reply()));
      waiting_.emplace(id, Waiting{caller.task, std::move(done), alarm});
    } else {
      refused = std::move(done);
    }
  }
  if (refused != nullptr) {
    return std::move(refused)(absl::ResourceExhaustedError(
        absl::StrCat("task ", caller.task, " has ", kMaxOfTask,
                     " heartbeats that wait for an answer")));
  }
  if (withdrawn == nullptr) return;
  withdrawn->Watch(IfAlive(weak_from_this(), &HeartbeatService::End, id));
}

void HeartbeatService::End(uint64_t id, ControlAnswer answer) {
  Waiting ended;
  {
    MutexLock lock(&mu_);
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return;
    ended = std::move(found->second);
    waiting_.erase(found);
    const auto num = num_of_task_.find(ended.task);
    if (--num->second == 0) num_of_task_.erase(num);
  }
  clock_->Cancel(ended.alarm);
  std::move(ended.done)(std::move(answer));
}

}  // namespace tutti
