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
  std::exception_ptr
      first_exception;  // Work that throws holds up no other work.
  const auto run = [&first_exception](Work& next) {
    Work current = std::move(next);  // Destroyed, with its captures, in turn.
    try {
      std::move(current)();
    } catch (...) {
      if (first_exception == nullptr) {
        first_exception = std::current_exception();
      }
    }
  };
  run(work);
  while (!turn.waiting.empty()) {
    turn.now.swap(turn.waiting);
    for (Work& next : turn.now) run(next);
    turn.now.clear();
  }
  turn.is_running = false;
  if (first_exception != nullptr) std::rethrow_exception(first_exception);
}

void FinishOnTrampoline(StatusCallback done, absl::Status status) {
  RunOnTrampoline(
      [done = std::move(done), status = std::move(status)]() mutable {
        std::move(done)(std::move(status));
      });
}

}  // namespace tutti
