#ifndef TUTTI_GPU_SUITE_BENCH_LIST_H_
#define TUTTI_GPU_SUITE_BENCH_LIST_H_

#include <vector>

#include "gpu/suite/bench_case.h"

namespace tutti {

// All benchmarks, in the order in which they run. Whoever adds one adds it to
// the list in bench_list.cc.
std::vector<BenchCase> AllBenches(const BenchScale& scale);

}  // namespace tutti

#endif  // TUTTI_GPU_SUITE_BENCH_LIST_H_
