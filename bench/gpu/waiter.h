#ifndef TUTTI_BENCH_GPU_WAITER_H_
#define TUTTI_BENCH_GPU_WAITER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/gpu/pending_calls.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Keeps a stream from going on until Release(), the destructor, or a limit. The
// limit saves a host that waits for the stream meanwhile. Thread-safe; the
// clock outlives it.
class StreamHold {
 public:
  // `on_end` runs once when the stream may go on.
  StreamHold(
      Clock& clock, absl::Duration limit, std::function<void()> on_end = [] {});
  ~StreamHold() { Release(); }
  StreamHold(const StreamHold&) = delete;
  StreamHold& operator=(const StreamHold&) = delete;

  // Lets the stream go on. Returns whether this call ends the hold.
  bool Release();

  // Becomes true, and notifies, when the stream may go on.
  std::shared_ptr<const std::atomic<bool>> gate() const { return gate_; }

 private:
  Clock& clock_;
  const std::shared_ptr<std::atomic<bool>> gate_;
  const std::function<bool()> end_;
  const Clock::AlarmId alarm_;
};

// Waits of the host for GPUs: by blocking on a real machine, by running the
// work itself on doubles. Belongs to one thread; the runtime outlives it.
class Waiter {
 public:
  explicit Waiter(GpuRuntime& runtime) : runtime_(runtime) {}
  virtual ~Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Returns when all calls have ended, with the first error among them. Errors:
  // DEADLINE_EXCEEDED with the names of the calls that have not ended.
  virtual absl::Status Wait(PendingCalls& calls) = 0;

  // Keeps back all that is put on the stream from now on, until the hold ends
  // or `limit` is over. The runtime may call the host for no other stream
  // meanwhile. Errors: as GpuRuntime::CallHost.
  virtual absl::StatusOr<std::unique_ptr<StreamHold>> Hold(
      GpuStream stream, absl::Duration limit) = 0;

  // Waits for all that the stream has now. Errors: as Wait().
  absl::Status WaitFor(GpuStream stream);

 protected:
  GpuRuntime& runtime() const { return runtime_; }

 private:
  GpuRuntime& runtime_;
};

// Blocks its thread, for at most `limit` each time. Asks the runtime now and
// then whether the GPUs are well, because a spoilt GPU ends no call.
class BlockingWaiter : public Waiter {
 public:
  struct Options {
    absl::Duration limit = absl::Minutes(2);
    absl::Duration look_every = absl::Milliseconds(200);

    // Called after `limit`. A program ends there, because GPUs may still use
    // the memory of the caller.
    std::function<void(const absl::Status& status)> give_up;
  };

  // REQUIRES: `clock` rings alarms on a thread of its own.
  BlockingWaiter(GpuRuntime& runtime, Clock& clock, Options options)
      : Waiter(runtime), clock_(clock), options_(std::move(options)) {}

  absl::Status Wait(PendingCalls& calls) override;

  // Holds the stream by a call of the host that blocks, against the rule of
  // GpuRuntime::CallHost().
  absl::StatusOr<std::unique_ptr<StreamHold>> Hold(
      GpuStream stream, absl::Duration limit) override;

 private:
  Clock& clock_;
  const Options options_;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_WAITER_H_
