#ifndef TUTTI_BENCH_GPU_GPU_TIMING_H_
#define TUTTI_BENCH_GPU_GPU_TIMING_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Work that a stream does as often as it is launched.
class GpuGraph {
 public:
  virtual ~GpuGraph() = default;
  virtual absl::Status Launch(GpuStream stream) = 0;
};

// What the suite needs of CUDA beyond GpuRuntime: time as the GPU sees it, and
// graphs. cuda_timing.h has it; tests have a double. For one thread at a time.
// Errors: as those of GpuRuntime.
class GpuTiming {
 public:
  virtual ~GpuTiming() = default;

  // The time when the streams, of one GPU, come here.
  virtual absl::Status Start(GpuStream stream) = 0;
  virtual absl::Status Stop(GpuStream stream) = 0;

  // Between the two. REQUIRES: the streams are past them.
  virtual absl::StatusOr<double> Seconds() = 0;

  // Any number of other times: when this stream comes here. Returns the mark's
  // number.
  virtual absl::StatusOr<int> Mark(GpuStream stream) = 0;

  // From one mark to another. REQUIRES: the streams are past both.
  virtual absl::StatusOr<double> SecondsBetween(int from, int to) = 0;

  // What `enqueue` puts on the stream, which does not run now. It must neither
  // allocate nor wait. The graph's buffers outlive its launches.
  virtual absl::StatusOr<std::unique_ptr<GpuGraph>> Capture(
      GpuStream stream, absl::FunctionRef<absl::Status()> enqueue) = 0;
};

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_GPU_TIMING_H_
