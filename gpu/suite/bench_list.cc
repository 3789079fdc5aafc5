#include "gpu/suite/bench_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "gpu/suite/local_bench.h"
#include "gpu/suite/schedule_bench.h"

namespace tutti {

std::vector<BenchCase> AllBenches(const BenchScale& scale) {
  std::vector<BenchCase> all;
  for (std::vector<BenchCase> part :
       {LocalReduceBenches(scale), SmallReduceBenches(),
        ScheduleBenches(scale)}) {
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace tutti
