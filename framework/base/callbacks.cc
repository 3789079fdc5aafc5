#include "framework/base/callbacks.h"

#include <utility>
#include <vector>

namespace tutti {
namespace {

// Works of one thread. Keeps its memory for the next turn.
struct Turn {
  bool is_running = false;
  std::vector<Work> waiting;
  std::vector<Work> now;
};

}  // namespace

void RunOnTrampoline(Work work) {
  static thread_local Turn turn;
  if (turn.is_running) {
    turn.waiting.push_back(std::move(work));
    return;
  }
  turn.is_running = true;
  std::move(work)();
  work = nullptr;
  while (!turn.waiting.empty()) {
    turn.now.swap(turn.waiting);
    for (Work& next : turn.now) {
      Work mine = std::move(next);  // Destroyed, with its captures, in turn.
      std::move(mine)();
    }
    turn.now.clear();
  }
  turn.is_running = false;
}

void FinishOnTrampoline(StatusCallback done, absl::Status status) {
  RunOnTrampoline(
      [done = std::move(done), status = std::move(status)]() mutable {
        std::move(done)(std::move(status));
      });
}

}  // namespace tutti
