#ifndef TUTTI_BENCH_GPU_ABORT_CHECKS_H_
#define TUTTI_BENCH_GPU_ABORT_CHECKS_H_

#include <memory>
#include <vector>

#include "bench/gpu/check.h"
#include "gpu/nccl/runtime/nccl_runtime.h"

namespace tutti {

// That what hangs in NCCL ends within 5 s of an abort, and that the next
// generation of the group works: a communicator that one of two ranks never
// makes, and, on two GPUs or more, an NcclReduce that the second of two tasks
// never joins.
std::vector<Check> AbortChecks(const std::shared_ptr<NcclRuntime>& nccl,
                               int num_gpus);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_ABORT_CHECKS_H_
