#ifndef TUTTI_BENCH_GPU_SIMULATED_MACHINE_H_
#define TUTTI_BENCH_GPU_SIMULATED_MACHINE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/gpu/pending_calls.h"
#include "bench/gpu/stream_hold.h"
#include "bench/gpu/suite_machine.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// For tests: a machine of the double of the GPU runtime, which waits by running
// what is scheduled. What has not ended then never will.
class SimulatedMachine : public SuiteMachine {
 public:
  SimulatedMachine(FakeGpuRuntime& runtime, SimulatedEnvironment& environment)
      : SuiteMachine(runtime, environment.get(), /*host_block_bytes=*/1 << 16),
        runtime_(runtime),
        environment_(environment) {}

  absl::Status Wait(PendingCalls& calls) override {
    environment_.RunAll();
    // As a program that asks now and then whether the GPUs are well.
    if (!calls.have_ended()) {
      NewEvent(runtime(), 0).status().IgnoreError();
      environment_.Advance(GpuPassEnd::kLookEvery);
    }
    if (calls.have_ended()) return calls.status();
    ++num_given_up_;
    return absl::DeadlineExceededError(calls.Missing());
  }

  // Streams look at a gate, as there is no other thread for the host to wait
  // on.
  absl::StatusOr<std::unique_ptr<StreamHold>> Hold(
      GpuStream stream, absl::Duration limit) override {
    auto hold = std::make_unique<StreamHold>(*environment().clock, limit,
                                             runtime_.Waker());
    const absl::Status status = runtime_.PutGate(stream, hold->gate());
    if (!status.ok()) return status;
    return hold;
  }

  // How often a program would have given up.
  int num_given_up() const { return num_given_up_; }

 private:
  FakeGpuRuntime& runtime_;
  SimulatedEnvironment& environment_;
  int num_given_up_ = 0;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_SIMULATED_MACHINE_H_
