#ifndef TUTTI_GPU_SUITE_ABORT_CHECKS_H_
#define TUTTI_GPU_SUITE_ABORT_CHECKS_H_

#include <memory>
#include <vector>

#include "gpu/nccl/nccl_runtime.h"
#include "gpu/suite/check.h"

namespace tutti {

// That what hangs in NCCL ends within 5 s of an abort, and that the next
// generation of the group works: a communicator that one of two ranks never
// makes, and, on two GPUs or more, an NcclReduce that the second of two tasks
// never joins.
std::vector<Check> AbortChecks(const std::shared_ptr<NcclRuntime>& nccl,
                               int num_gpus);

}  // namespace tutti

#endif  // TUTTI_GPU_SUITE_ABORT_CHECKS_H_
