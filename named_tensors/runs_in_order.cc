#include "named_tensors/runs_in_order.h"

#include <utility>

namespace tutti {

void RunsInOrder::Add(Run run) {
  {
    MutexLock lock(&mu_);
    waiting_.push_back(std::move(run));
    if (is_beginning_) return;
    is_beginning_ = true;
  }
  BeginAll();
}

// Loops, because recursion would deepen the stack for runs that end at once. A
// loop under way on any thread also begins the runs that become due.
void RunsInOrder::BeginAll() {
  for (Run next = TakeNext(); next != nullptr; next = TakeNext()) {
    std::move(next)([self = shared_from_this()] {
      {
        MutexLock lock(&self->mu_);
        self->one_runs_ = false;
        if (std::exchange(self->is_beginning_, true)) return;
      }
      self->BeginAll();
    });
  }
}

// Returns null if nothing waits or a run is under way. The loop has then ended.
RunsInOrder::Run RunsInOrder::TakeNext() {
  MutexLock lock(&mu_);
  if (one_runs_ || waiting_.empty()) {
    is_beginning_ = false;
    return nullptr;
  }
  one_runs_ = true;
  Run next = std::move(waiting_.front());
  waiting_.pop_front();
  return next;
}

}  // namespace tutti
