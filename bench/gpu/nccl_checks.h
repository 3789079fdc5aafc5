#ifndef TUTTI_BENCH_GPU_NCCL_CHECKS_H_
#define TUTTI_BENCH_GPU_NCCL_CHECKS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/gpu/check.h"
#include "bench/gpu/suite_group.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tests/conformance/case.h"

namespace tutti {

// Runs the cases of one of NCCL's collectives, or of one that goes on from it
// to a schedule, among the group's devices, and then `more`. Errors: the first;
// NOT_FOUND.
absl::Status CheckNcclCollective(
    SuiteGroup& group, const std::string& name, const CheckScale& scale,
    const std::vector<conformance::Case>& more = {});

// What the collectives of NCCL do among the first `num_gpus` GPUs, a device on
// each: one check for each collective, also those that go on from NCCL to a
// schedule. They run the cases of tests/conformance/ that NCCL has and compare
// bit by bit: inputs of floats are such that no result is rounded.
std::vector<Check> NcclChecks(const std::shared_ptr<NcclRuntime>& nccl,
                              int num_gpus, const CheckScale& scale);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_NCCL_CHECKS_H_
