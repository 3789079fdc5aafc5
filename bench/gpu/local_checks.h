#ifndef TUTTI_BENCH_GPU_LOCAL_CHECKS_H_
#define TUTTI_BENCH_GPU_LOCAL_CHECKS_H_

#include <vector>

#include "bench/gpu/check.h"

namespace tutti {

// A group of `devices_per_gpu` devices on each of the first `num_gpus` GPUs.
struct GroupShape {
  int num_gpus = 1;
  int devices_per_gpu = 2;
};

// What GpuLocalReduce, GpuLocalBroadcast and GpuLocalGather do there, with
// inputs that are still being written and outputs that are read at once; the
// latter two by the cases of ScheduleChecks().
std::vector<Check> LocalChecks(const GroupShape& shape,
                               const CheckScale& scale);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_LOCAL_CHECKS_H_
