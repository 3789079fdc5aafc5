#ifndef TUTTI_BENCH_GPU_LOCAL_BENCH_H_
#define TUTTI_BENCH_GPU_LOCAL_BENCH_H_

#include <vector>

#include "bench/gpu/bench_case.h"

namespace tutti {

// GpuLocalReduce of large buffers among 2, 4 and 8 devices on GPU 0, beside its
// kernel alone and beside copies of as many bytes, by our kernel and by
// cudaMemcpyAsync: the N inputs of S bytes, which lie one after the other, are
// copied to the N outputs, so each moves 2*N*S bytes. All of it takes turns in
// the same buffers. The aim is a share of the faster copy's speed.
std::vector<BenchCase> LocalReduceBenches(const BenchScale& scale);

// Its kernel on 4 KiB of 2, 4 and 8 devices, as a CUDA graph that is replayed
// again and again, beside launching it each time. The aim is a time.
std::vector<BenchCase> SmallReduceBenches();

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_LOCAL_BENCH_H_
