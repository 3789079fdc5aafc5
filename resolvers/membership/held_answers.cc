#include "resolvers/membership/held_answers.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "framework/base/callbacks.h"

namespace tutti {
namespace {

// Limit per task. A task has one call under way, and two while one crosses the
// answer to another.
constexpr int kMaxOfTask = 8;

}  // namespace

HeldAnswers::~HeldAnswers() {
  for (auto& [id, waiting] : waiting_) {
    clock_->Cancel(waiting.alarm);
    std::move(waiting.done)(absl::CancelledError("the task shuts down"));
  }
}

void HeldAnswers::Add(const ControlCaller& caller, int64_t hold_ms,
                      const std::shared_ptr<Cancellation>& withdrawn,
                      ControlDone done) {
  const int64_t most = absl::ToInt64Milliseconds(DefaultTime("most hold"));
  if (hold_ms < 0 || hold_ms > most) {
    return std::move(done)(absl::InvalidArgumentError(
        absl::StrCat(name_, ".hold_ms is ", hold_ms, "; wanted 0 to ", most)));
  }
  if (hold_ms == 0) return std::move(done)(make_(caller));
  uint64_t id = 0;
  ControlDone refused;
  {
    MutexLock lock(&mu_);
    int& num_of_task = num_of_task_[caller.task];
    if (num_of_task < kMaxOfTask) {
      ++num_of_task;
      id = ++last_id_;
      const Clock::AlarmId alarm =
          clock_->CallAt(clock_->Now() + absl::Milliseconds(hold_ms),
                         IfAlive(weak_from_this(), &HeldAnswers::Answer, id));
      waiting_.emplace(id, Waiting{caller, std::move(done), alarm});
    } else {
      refused = std::move(done);
    }
  }
  if (refused != nullptr) {
    return std::move(refused)(absl::ResourceExhaustedError(
        absl::StrCat("task ", caller.task, " has ", kMaxOfTask, " calls of ",
                     name_, " that wait for an answer")));
  }
  withdrawn->Watch(IfAlive(weak_from_this(), &HeldAnswers::End, id));
}

void HeldAnswers::Release() {
  std::vector<uint64_t> ids;
  {
    MutexLock lock(&mu_);
    for (const auto& [id, waiting] : waiting_) ids.push_back(id);
  }
  for (const uint64_t id : ids) Answer(id);
}

void HeldAnswers::Answer(uint64_t id) {
  auto call = Take(id);
  if (call.has_value()) std::move(call->done)(make_(call->caller));
}

void HeldAnswers::End(uint64_t id, const absl::Status& reason) {
  auto call = Take(id);
  if (call.has_value()) std::move(call->done)(reason);
}

// Returns nothing if the call has been answered.
std::optional<HeldAnswers::Waiting> HeldAnswers::Take(uint64_t id) {
  Waiting taken;
  {
    MutexLock lock(&mu_);
    const auto found = waiting_.find(id);
    if (found == waiting_.end()) return std::nullopt;
    taken = std::move(found->second);
    waiting_.erase(found);
    const auto num = num_of_task_.find(taken.caller.task);
    if (--num->second == 0) num_of_task_.erase(num);
  }
  clock_->Cancel(taken.alarm);
  return taken;
}

}  // namespace tutti
