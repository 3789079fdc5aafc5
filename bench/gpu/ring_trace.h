#ifndef TUTTI_BENCH_GPU_RING_TRACE_H_
#define TUTTI_BENCH_GPU_RING_TRACE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/gpu/gpu_timing.h"
#include "bench/gpu/suite_machine.h"

namespace tutti {

// One kernel of one member, and when it was where. Times count from when the
// streams were let go.
struct RingStep {
  struct Run {
    double began = 0, ended = 0;  // In seconds.
  };

  int rank = 0;
  int step = 0;                     // Of the rank.
  absl::Duration called, returned;  // Its launch, by the host. Below 0.
  std::optional<Run> run;           // By the GPU. Unset without GpuTiming.
};

// In the order in which the host launched them.
using RingTrace = std::vector<RingStep>;

struct TracedRing {
  int num_members = 2;  // On GPU 0.
  int64_t num_elements = 1001;

  // Else only the calls are counted, as where launches may wait for the GPU.
  bool holds_streams = true;

  // At most so long: a host takes 1 ms for all steps.
  absl::Duration hold_limit = absl::Seconds(10);

  GpuTiming* timing = nullptr;
};

// Calls RingReduce of float32 for all members while their compute streams are
// held, and lets these go when all calls have returned. By then, all steps have
// been launched, none has run, and each member's stream is to call the host
// once, at its end. A run before has made what is made only once, for which
// calls may wait. Errors: INTERNAL where it is not so, such as where a call
// waits for a stream.
absl::StatusOr<RingTrace> TraceRing(SuiteMachine& machine,
                                    const TracedRing& ring);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_RING_TRACE_H_
