#include "tools/parallel_for.h"

#include <atomic>
#include <vector>

#include "framework/default_environment.h"
#include "gtest/gtest.h"

namespace tutti {
namespace {

TEST(ParallelForTest, RunsEachIndexOnceBeforeItReturns) {
  const DefaultEnvironment environment(3);
  for (int count : {0, 1, 100}) {
    std::vector<std::atomic<int>> runs(count);
    ParallelFor(environment.get().queue, count, [&](int i) { ++runs[i]; });
    for (const std::atomic<int>& times : runs) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace tutti
