#ifndef TUTTI_BENCH_GPU_DEVICE_CHECKS_H_
#define TUTTI_BENCH_GPU_DEVICE_CHECKS_H_

#include <vector>

#include "bench/gpu/check.h"

namespace tutti {

// What the calls of GpuRuntime, and the streams, memory and staging of
// CudaDevice do on the first of `num_gpus` GPUs; with several, also copies
// between them.
std::vector<Check> DeviceChecks(int num_gpus, const CheckScale& scale);

// That a GPU which fails is noticed by all who wait for it. It can do nothing
// more for the process afterwards, so it comes last.
Check FaultCheck();

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_DEVICE_CHECKS_H_
