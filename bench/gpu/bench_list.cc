#include "bench/gpu/bench_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/gpu/local_bench.h"
#include "bench/gpu/nccl_bench.h"
#include "bench/gpu/schedule_bench.h"

namespace tutti {

BenchList AllBenches(int num_gpus,
                     const absl::StatusOr<std::shared_ptr<NcclRuntime>>& nccl,
                     const BenchScale& scale) {
  BenchList list;
  const auto append = [&](std::vector<BenchCase> part) {
    std::move(part.begin(), part.end(), std::back_inserter(list.cases));
  };
  append(LocalReduceBenches(scale));
  append(SmallReduceBenches());
  append(ScheduleBenches(scale));
  if (nccl.ok()) {
    append(NcclBenches(*nccl, /*num_gpus=*/1, scale));
    if (num_gpus > 1) append(NcclBenches(*nccl, num_gpus, scale));
  } else {
    list.left_out.push_back(
        absl::StrCat("NcclReduce: ", nccl.status().message()));
  }
  return list;
}

}  // namespace tutti
