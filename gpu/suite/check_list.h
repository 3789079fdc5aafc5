#ifndef TUTTI_GPU_SUITE_CHECK_LIST_H_
#define TUTTI_GPU_SUITE_CHECK_LIST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu/gpu_runtime.h"
#include "gpu/nccl/nccl_runtime.h"
#include "gpu/suite/check.h"
#include "gpu/suite/gpu_timing.h"

namespace tutti {

struct CheckList {
  std::vector<Check> checks;          // In the order in which they run.
  std::vector<std::string> left_out;  // What this machine lacks, and for what.
};

// All checks that can run on the GPUs of `runtime`, with NCCL, or why there is
// none. `timing`, of GPU 0, outlives them. Whoever adds one adds it to the list
// in check_list.cc. Errors: as GpuRuntime::NumGpus; NOT_FOUND if there is no
// GPU.
absl::StatusOr<CheckList> AllChecks(
    GpuRuntime& runtime,
    const absl::StatusOr<std::shared_ptr<NcclRuntime>>& nccl, GpuTiming& timing,
    const CheckScale& scale);

}  // namespace tutti

#endif  // TUTTI_GPU_SUITE_CHECK_LIST_H_
