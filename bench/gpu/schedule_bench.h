#ifndef TUTTI_BENCH_GPU_SCHEDULE_BENCH_H_
#define TUTTI_BENCH_GPU_SCHEDULE_BENCH_H_

#include <vector>

#include "bench/gpu/bench_case.h"

namespace tutti {

// RingReduce of float32 among 2, 4 and 8 devices on GPU 0, beside copies. In
// each of N - 1 steps every member reads two chunks and writes one, in as many
// more it reads one and writes one, so that 5 (N - 1) S bytes go through the
// memory of the card. The aim is a multiple of the time in which the faster
// copy moves as many. Each also has a trace of its steps (TraceRing()), or that
// one's error.
std::vector<BenchCase> ScheduleBenches(const BenchScale& scale);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_SCHEDULE_BENCH_H_
