#ifndef TUTTI_BENCH_GPU_CHECK_LIST_H_
#define TUTTI_BENCH_GPU_CHECK_LIST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/gpu/check.h"
#include "bench/gpu/gpu_timing.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/gpu_devices.h"

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

#endif  // TUTTI_BENCH_GPU_CHECK_LIST_H_
