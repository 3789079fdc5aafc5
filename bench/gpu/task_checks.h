#ifndef TUTTI_BENCH_GPU_TASK_CHECKS_H_
#define TUTTI_BENCH_GPU_TASK_CHECKS_H_

#include <memory>
#include <vector>

#include "bench/gpu/check.h"
#include "gpu/nccl/runtime/nccl_runtime.h"

namespace tutti {

// What schedules do among two tasks on GPU 0, whose bytes pass through pinned
// memory: rings, hierarchical rings and trees with one and with two devices
// each, by the cases of ScheduleChecks(); and NcclThenRing with one, which
// needs no NCCL then, also with three chunks.
std::vector<Check> TaskChecks(const CheckScale& scale);

// What NCCL and a schedule do among two tasks of two GPUs each, by the cases of
// NcclChecks() and with three chunks: NCCL within each task, and between them
// pinned memory. REQUIRES: there are 4 GPUs.
std::vector<Check> NcclTaskChecks(const std::shared_ptr<NcclRuntime>& nccl,
                                  const CheckScale& scale);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_TASK_CHECKS_H_
