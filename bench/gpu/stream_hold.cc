#include "bench/gpu/stream_hold.h"

#include <utility>

#include "framework/base/mutex.h"

namespace tutti {

struct StreamHold::State {
  explicit State(std::function<void()> when_over)
      : on_end(std::move(when_over)) {}

  // Whether it was not over before.
  bool End() {
    {
      MutexLock lock(&mu);
      if (is_over.exchange(true)) return false;
      changed.SignalAll();
    }
    if (on_end) on_end();
    return true;
  }

  void Await() {
    MutexLock lock(&mu);
    while (!is_over) changed.Wait(&mu);
  }

  const std::function<void()> on_end;
  Mutex mu;
  CondVar changed;
  std::atomic<bool> is_over = false;  // Changes with `mu` held.
};

StreamHold::StreamHold(Clock& clock, absl::Duration limit,
                       std::function<void()> on_end)
    : clock_(clock),
      state_(std::make_shared<State>(std::move(on_end))),
      alarm_(clock.CallAt(clock.Now() + limit,
                          [state = state_] { state->End(); })) {}

bool StreamHold::Release() {
  clock_.Cancel(alarm_);
  return state_->End();
}

std::shared_ptr<const std::atomic<bool>> StreamHold::gate() const {
  return {state_, &state_->is_over};
}

std::function<void()> StreamHold::Waiter() const {
  return [state = state_] { state->Await(); };
}

}  // namespace tutti
