#include "remote/work_backlog.h"

#include <utility>

namespace tutti {

void WorkBacklog::Add(Work work) {
  {
    MutexLock lock(&state_->mu);
    state_->waiting.push_back(std::move(work));
  }
  queue_->Schedule([state = state_] { state->RunOne(); });
}

void WorkBacklog::Drain() {
  while (true) {
    while (state_->RunOne()) {
    }
    MutexLock lock(&state_->mu);
    while (state_->num_running > 0) state_->ended.Wait(&state_->mu);
    if (state_->waiting.empty()) return;
  }
}

bool WorkBacklog::State::RunOne() {
  Work work;
  {
    MutexLock lock(&mu);
    if (waiting.empty()) return false;
    work = std::move(waiting.front());
    waiting.pop_front();
    ++num_running;
  }
  std::move(work)();
  work = nullptr;  // With what it holds.
  MutexLock lock(&mu);
  if (--num_running == 0) ended.SignalAll();
  return true;
}

}  // namespace tutti
