#include "tools/measure/parallel_for.h"

#include <atomic>
#include <vector>

#include "gtest/gtest.h"
#include "tutti/environment.h"

namespace tutti {
namespace parallel_for_test {

TEST(ParallelForTest, RunsEachIndexOnceBeforeItReturns) {
  const DefaultEnvironment environment(3);
  for (int count : {0, 1, 100}) {
    std::vector<std::atomic<int>> runs(count);
    ParallelFor(environment.get().queue, count, [&](int i) { ++runs[i]; });
    for (const std::atomic<int>& times : runs) EXPECT_EQ(times, 1);
  }
}

}  // namespace parallel_for_test
}  // namespace tutti
