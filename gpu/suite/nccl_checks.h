#ifndef TUTTI_GPU_SUITE_NCCL_CHECKS_H_
#define TUTTI_GPU_SUITE_NCCL_CHECKS_H_

#include <memory>
#include <vector>

#include "gpu/nccl/nccl_runtime.h"
#include "gpu/suite/check.h"

namespace tutti {

// What the collectives of NCCL do among the first `num_gpus` GPUs, a device on
// each: one check for each collective, also those that go on from NCCL to a
// schedule. They run the cases of tests/conformance/ that NCCL has and compare
// bit by bit: inputs of floats are such that no result is rounded.
std::vector<Check> NcclChecks(const std::shared_ptr<NcclRuntime>& nccl,
                              int num_gpus, const CheckScale& scale);

}  // namespace tutti

#endif  // TUTTI_GPU_SUITE_NCCL_CHECKS_H_
