#ifndef TUTTI_BENCH_GPU_KERNEL_CHECKS_H_
#define TUTTI_BENCH_GPU_KERNEL_CHECKS_H_

#include <vector>

#include "bench/gpu/check.h"
#include "bench/gpu/gpu_timing.h"

namespace tutti {

// What GpuRuntime::LaunchReduce() and LaunchCopy() write on `gpu`, and that it
// is all they write: every dtype and reduction, 1 to 8 inputs and outputs, odd
// lengths, buffers that lie alike and not, averages, outputs that are inputs.
// The results are those of framework/reduce/reduction_reference.h, bit by bit.
std::vector<Check> KernelChecks(int gpu, const CheckScale& scale);

// The same on GPU 0 of some of these launches as graphs, of every dtype and
// reduction, that `timing` captures. It outlives the checks.
std::vector<Check> GraphChecks(GpuTiming& timing, const CheckScale& scale);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_KERNEL_CHECKS_H_
