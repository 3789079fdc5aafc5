#include "gpu/nccl/runtime/nccl_turns.h"

#include <algorithm>
#include <set>
#include <utility>

#include "framework/base/callbacks.h"

namespace tutti {
namespace {

void RunAll(std::vector<NcclTurns::Begin> due) {
  for (NcclTurns::Begin& begin : due) RunOnTrampoline(std::move(begin));
}

}  // namespace

void NcclTurns::Take(const void* who, std::vector<int> gpus, Begin begin) {
  std::vector<Begin> due;
  {
    MutexLock lock(&mu_);
    turns_.push_back({who, std::move(gpus), std::move(begin)});
    due = TakeDue();
  }
  // Only this thread runs them.
  for (Begin& mine : due) std::move(mine)();
}

bool NcclTurns::Leave(const void* who) {
  Turn left;  // Destroyed without the lock.
  std::vector<Begin> due;
  {
    MutexLock lock(&mu_);
    left = Remove(who, /*waits=*/true);
    due = TakeDue();
  }
  RunAll(std::move(due));
  return left.begin != nullptr;
}

void NcclTurns::GiveBack(const void* who) {
  std::vector<Begin> due;
  {
    MutexLock lock(&mu_);
    Remove(who, /*waits=*/false);
    due = TakeDue();
  }
  RunAll(std::move(due));
}

NcclTurns::Turn NcclTurns::Remove(const void* who, bool waits) {
  const auto found =
      std::find_if(turns_.begin(), turns_.end(), [&](const Turn& turn) {
        return turn.who == who && (turn.begin != nullptr) == waits;
      });
  if (found == turns_.end()) return {};
  Turn removed = std::move(*found);
  turns_.erase(found);
  return removed;
}

std::vector<NcclTurns::Begin> NcclTurns::TakeDue() {
  std::vector<Begin> due;
  std::set<int> wanted;  // GPUs of earlier turns.
  for (Turn& turn : turns_) {
    const bool is_free =
        std::none_of(turn.gpus.begin(), turn.gpus.end(),
                     [&](int gpu) { return wanted.contains(gpu); });
    wanted.insert(turn.gpus.begin(), turn.gpus.end());
    if (!is_free || turn.begin == nullptr) continue;
    due.push_back(std::move(turn.begin));
    turn.begin = nullptr;
  }
  return due;
}

}  // namespace tutti
