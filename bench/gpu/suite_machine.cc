#include "bench/gpu/suite_machine.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// The first call that a spoilt GPU's error comes back from tells all that wait.
void LookAtGpus(GpuRuntime& runtime) {
  const absl::StatusOr<int> num_gpus = runtime.NumGpus();
  for (int gpu = 0; gpu < num_gpus.value_or(1); ++gpu) {
    const absl::StatusOr<OwnedGpuEvent> event = NewEvent(runtime, gpu);
    if (event.ok()) runtime.IsDone(event->get()).status().IgnoreError();
  }
}

}  // namespace

absl::Status SuiteMachine::WaitFor(GpuStream stream) {
  PendingCalls calls;
  // A failed call tells its callback, too.
  runtime_
      .CallHost(calls.Add(absl::StrCat("a stream of GPU ", stream.gpu)), stream)
      .IgnoreError();
  return Wait(calls);
}

absl::Status BlockingMachine::Wait(PendingCalls& calls) {
  Clock& clock = *environment().clock;
  const absl::Time end = clock.Now() + options_.limit;
  while (!calls.WaitUntil(std::min(end, clock.Now() + options_.look_every),
                          clock)) {
    if (clock.Now() >= end) {
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

absl::StatusOr<std::unique_ptr<StreamHold>> BlockingMachine::Hold(
    GpuStream stream, absl::Duration limit) {
  auto hold = std::make_unique<StreamHold>(*environment().clock, limit);
  const absl::Status status = runtime().CallHost(
      [wait = hold->Waiter()](const absl::Status& called) {
        if (called.ok()) wait();
      },
      stream);
  if (!status.ok()) return status;
  return hold;
}

}  // namespace tutti
