#ifndef TUTTI_BENCH_GPU_GPU_MACHINE_H_
#define TUTTI_BENCH_GPU_GPU_MACHINE_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/gpu/launch_trace.h"
#include "bench/gpu/waiter.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/runtime/pinned_pool.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Throws the error that `status` has, as the value() of a StatusOr does. In the
// suite it fails the check or the benchmark.
inline void Ok(const absl::Status& status) {
  if (!status.ok()) throw absl::BadStatusOrAccess(status);
}

// Work that a stream does as often as it is launched.
class GpuGraph {
 public:
  virtual ~GpuGraph() = default;
  virtual absl::Status Launch(GpuStream stream) = 0;
};

// Time as a GPU sees it, and graphs: what the suite needs beyond GpuRuntime.
// For one thread at a time. Errors: as GpuRuntime.
class GpuTiming {
 public:
  virtual ~GpuTiming() = default;

  // Note the time when the stream comes here. Both streams are of one GPU.
  virtual absl::Status Start(GpuStream stream) = 0;
  virtual absl::Status Stop(GpuStream stream) = 0;

  // Time from Start() to Stop(). REQUIRES: the streams are past them.
  virtual absl::StatusOr<double> Seconds() = 0;

  // Graph of all that `enqueue` puts on the stream, which does not run now.
  // `enqueue` neither allocates nor waits. Its buffers outlive the launches.
  virtual absl::StatusOr<std::unique_ptr<GpuGraph>> Capture(
      GpuStream stream, absl::FunctionRef<absl::Status()> enqueue) = 0;
};

// Amount of work of the checks: some minutes on a GPU.
struct CheckScale {
  int64_t large_elements = 1'000'003;      // Longest buffers; odd.
  int64_t churn_bytes = int64_t{8} << 20;  // Tensors that come and go.
  int rounds = 200;  // Repetitions of what may go wrong now and then.

  // Whether a tool watches the kernels. Launches may wait for kernels then, so
  // no stream is held, and no check spoils a GPU.
  bool is_watched = false;
};

// Machine on which checks and benchmarks run: real GPUs, or doubles of them.
// Belongs to one thread. The referenced parts outlive it.
struct GpuMachine {
  GpuRuntime& runtime;
  LaunchTrace& trace;  // Sees the launches of `runtime`.
  GpuTiming& timing;   // For GPU 0.
  Waiter& waiter;
  Environment environment;
  absl::StatusOr<std::shared_ptr<NcclRuntime>> nccl;  // Or why it is absent.
  CheckScale scale = {};

  // Memory of the host through which bytes go to GPUs and back. No copy of it
  // makes the caller wait.
  std::shared_ptr<PinnedPool> host_memory =
      PinnedPool::Create({.runtime = &runtime}).value();

  int num_gpus() const { return runtime.NumGpus().value(); }
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_GPU_MACHINE_H_
