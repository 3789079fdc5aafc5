#ifndef TUTTI_BENCH_GPU_SUITE_MACHINE_H_
#define TUTTI_BENCH_GPU_SUITE_MACHINE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/gpu/host_area.h"
#include "bench/gpu/pending_calls.h"
#include "bench/gpu/stream_hold.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// What the suite runs on: the GPUs of a runtime, threads and time, and a way to
// wait. The same checks run on real GPUs and on the double of the runtime.
// Belongs to one thread; the runtime and the environment outlive it.
class SuiteMachine {
 public:
  SuiteMachine(GpuRuntime& runtime, const Environment& environment,
               size_t host_block_bytes)
      : runtime_(runtime),
        environment_(environment),
        host_area_(runtime, host_block_bytes) {}
  virtual ~SuiteMachine() = default;
  SuiteMachine(const SuiteMachine&) = delete;
  SuiteMachine& operator=(const SuiteMachine&) = delete;

  GpuRuntime& runtime() const { return runtime_; }
  const Environment& environment() const { return environment_; }
  HostArea& host_area() { return host_area_; }

  // Returns when all calls have ended, with the first error among them. Errors:
  // DEADLINE_EXCEEDED naming those that have not.
  virtual absl::Status Wait(PendingCalls& calls) = 0;

  // What is put on the stream from now on runs when the hold ends, after
  // `limit` at the latest. Until then the runtime may call the host for no
  // stream at all. Errors: as GpuRuntime::CallHost.
  virtual absl::StatusOr<std::unique_ptr<StreamHold>> Hold(
      GpuStream stream, absl::Duration limit) = 0;

  // As Wait(), for what the stream holds now.
  absl::Status WaitFor(GpuStream stream);

 private:
  GpuRuntime& runtime_;
  const Environment environment_;
  HostArea host_area_;
};

// Blocks its thread, for at most `limit` each time. Asks the runtime now and
// then whether the GPUs are well, since one that is spoilt tells nobody.
class BlockingMachine : public SuiteMachine {
 public:
  struct Options {
    absl::Duration limit = absl::Minutes(2);
    absl::Duration look_every = absl::Milliseconds(200);
    size_t host_block_bytes = size_t{64} << 20;

    // Called where something did not end in time: what it uses must stay, so a
    // program had better end here.
    std::function<void(const absl::Status& status)> give_up;
  };

  // REQUIRES: the environment has threads.
  BlockingMachine(GpuRuntime& runtime, const Environment& environment,
                  Options options)
      : SuiteMachine(runtime, environment, options.host_block_bytes),
        options_(std::move(options)) {}

  absl::Status Wait(PendingCalls& calls) override;

  // The stream calls the host, which waits: against the rule of CallHost(), but
  // it is for just this.
  absl::StatusOr<std::unique_ptr<StreamHold>> Hold(
      GpuStream stream, absl::Duration limit) override;

 private:
  const Options options_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_SUITE_MACHINE_H_
