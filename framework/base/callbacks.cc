#include "framework/base/callbacks.h"

#include <exception>
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
  std::exception_ptr thrown;  // Work that throws holds up no other work.
  const auto run = [&thrown](Work& next) {
    Work mine = std::move(next);  // Destroyed, with its captures, in turn.
    try {
      std::move(mine)();
    } catch (...) {
      if (thrown == nullptr) thrown = std::current_exception();
    }
  };
  run(work);
  while (!turn.waiting.empty()) {
    turn.now.swap(turn.waiting);
    for (Work& next : turn.now) run(next);
    turn.now.clear();
  }
  turn.is_running = false;
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

void FinishOnTrampoline(StatusCallback done, absl::Status status) {
  RunOnTrampoline(
      [done = std::move(done), status = std::move(status)]() mutable {
        std::move(done)(std::move(status));
      });
}

}  // namespace tutti
