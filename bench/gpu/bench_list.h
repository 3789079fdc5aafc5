#ifndef TUTTI_BENCH_GPU_BENCH_LIST_H_
#define TUTTI_BENCH_GPU_BENCH_LIST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/gpu/bench_case.h"
#include "gpu/nccl/runtime/nccl_runtime.h"

namespace tutti {

struct BenchList {
  std::vector<BenchCase> cases;       // In the order in which they run.
  std::vector<std::string> left_out;  // What this machine lacks, and for what.
};

// All benchmarks on so many GPUs, with NCCL, or why there is none. Whoever adds
// one adds it to the list in bench_list.cc.
BenchList AllBenches(int num_gpus,
                     const absl::StatusOr<std::shared_ptr<NcclRuntime>>& nccl,
                     const BenchScale& scale);

}  // namespace tutti

#endif  // TUTTI_BENCH_GPU_BENCH_LIST_H_
