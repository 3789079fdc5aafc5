#include "gpu/nccl/nccl_turns.h"

#include <algorithm>
#include <utility>

#include "framework/run_in_turn.h"

namespace tutti {

void NcclTurns::Take(const void* who, absl::AnyInvocable<void() &&> begin) {
  {
    MutexLock lock(&mu_);
    if (is_taken_) {
      waiting_.push_back({who, std::move(begin)});
      return;
    }
    is_taken_ = true;
  }
  std::move(begin)();
}

bool NcclTurns::Leave(const void* who) {
  Waiting left;
  MutexLock lock(&mu_);
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [&](const Waiting& waiting) { return waiting.who == who; });
  if (found == waiting_.end()) return false;
  left = std::move(*found);  // Goes without the lock.
  waiting_.erase(found);
  return true;
}

void NcclTurns::GiveBack() {
  Waiting next;
  {
    MutexLock lock(&mu_);
    if (waiting_.empty()) {
      is_taken_ = false;
      return;
    }
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  RunInTurn(std::move(next.begin));
}

}  // namespace tutti
