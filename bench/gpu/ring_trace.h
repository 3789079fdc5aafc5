#ifndef TUTTI_BENCH_GPU_RING_TRACE_H_
#define TUTTI_BENCH_GPU_RING_TRACE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "bench/gpu/gpu_machine.h"

namespace tutti {

struct RingTrace {
  int num_launches = 0;
  absl::Duration host_time;  // Time in which all calls return.
};

// Calls RingReduce of float32 for `num_members` devices on GPU 0 while their
// compute streams are held, and lets the streams go when all calls have
// returned. All steps have been launched by then, none has run, and each
// member's stream is to call the host once, at its end. The streams of a
// watched machine are not held, and so only the calls count there. A run before
// makes what is made only once, for which calls may wait. Throws INTERNAL where
// it is not so, such as where a call waits for a stream.
RingTrace TraceRing(GpuMachine& machine, int num_members, int64_t num_elements);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_RING_TRACE_H_
