#include "bench/gpu/waiter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// Makes calls that return a spoilt GPU's error, and so end what waits for it.
void LookAtGpus(GpuRuntime& runtime) {
  const absl::StatusOr<int> num_gpus = runtime.NumGpus();
  for (int gpu = 0; gpu < num_gpus.value_or(1); ++gpu) {
    const absl::StatusOr<OwnedGpuEvent> event = NewEvent(runtime, gpu);
    if (event.ok()) runtime.IsDone(event->get()).status().IgnoreError();
  }
}

}  // namespace

StreamHold::StreamHold(Clock& clock, absl::Duration limit,
                       std::function<void()> on_end)
    : clock_(clock),
      gate_(std::make_shared<std::atomic<bool>>(false)),
      end_([gate = gate_, on_end = std::move(on_end)] {
        if (gate->exchange(true)) return false;
        gate->notify_all();
        on_end();
        return true;
      }),
      alarm_(clock.CallAt(clock.Now() + limit, [end = end_] { end(); })) {}

bool StreamHold::Release() {
  clock_.Cancel(alarm_);
  return end_();
}

absl::Status Waiter::WaitFor(GpuStream stream) {
  PendingCalls calls;
  // The callback has the error of a failed call.
  runtime_
      .CallHost(calls.Add(absl::StrCat("a stream of GPU ", stream.gpu)), stream)
      .IgnoreError();
  return Wait(calls);
}

absl::Status BlockingWaiter::Wait(PendingCalls& calls) {
  const absl::Time end = clock_.Now() + options_.limit;
  while (!calls.WaitUntil(std::min(end, clock_.Now() + options_.look_every),
                          clock_)) {
    if (clock_.Now() >= end) {
      absl::Status status = absl::DeadlineExceededError(
          absl::StrCat("not ended after ", absl::FormatDuration(options_.limit),
                       ": ", calls.Missing()));
      if (options_.give_up) options_.give_up(status);
      return status;
    }
    LookAtGpus(runtime());
  }
  return calls.status();
}

absl::StatusOr<std::unique_ptr<StreamHold>> BlockingWaiter::Hold(
    GpuStream stream, absl::Duration limit) {
  auto hold = std::make_unique<StreamHold>(clock_, limit);
  const absl::Status status = runtime().CallHost(
      [gate = hold->gate()](const absl::Status& called) {
        if (called.ok()) gate->wait(false);
      },
      stream);
  if (!status.ok()) return status;
  return hold;
}

}  // namespace tutti
