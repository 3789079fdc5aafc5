#ifndef TUTTI_GPU_SUITE_BENCH_LIST_H_
#define TUTTI_GPU_SUITE_BENCH_LIST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gpu/nccl/nccl_runtime.h"
#include "gpu/suite/bench_case.h"

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

#endif  // TUTTI_GPU_SUITE_BENCH_LIST_H_
