#include "framework/choice/delegate_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "tutti/implementation.h"
#include "tutti/params.h"

namespace tutti {
namespace delegate_cost_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Seconds(int num_tasks, int64_t bytes, bool one_process = false) {
  const GroupLayout layout =
      GroupLayout::Uniform(num_tasks, /*devices_per_task=*/1);
  return DelegateSeconds(
      {.layout = layout, .bytes = bytes, .one_process = one_process});
}

TEST(DelegateCostTest, IsInfiniteWithinOneProcess) {
  EXPECT_EQ(Seconds(1, 4), kInfinity);
  EXPECT_EQ(Seconds(4, 4, /*one_process=*/true), kInfinity);
}

TEST(DelegateCostTest, FewBytesCostLessThanOneMessage) {
  for (const int num_tasks : {2, 3, 8, 64}) {
    EXPECT_LT(Seconds(num_tasks, 4), CostModel().between.latency_seconds);
  }
}

TEST(DelegateCostTest, GrowsWithBytesAndTasks) {
  for (const int64_t bytes : {int64_t{4}, int64_t{1} << 20, int64_t{1} << 26}) {
    EXPECT_LT(Seconds(2, bytes), Seconds(2, 2 * bytes));
    EXPECT_LT(Seconds(4, bytes), Seconds(8, bytes));
  }
}

TEST(DelegateCostTest, BytesAboveTheCachesCostMoreAmongMoreThanTwo) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  EXPECT_GT(Seconds(4, kBytes), 4.5 * Seconds(4, kBytes / 4));
  EXPECT_LT(Seconds(2, kBytes), 4.5 * Seconds(2, kBytes / 4));
}

}  // namespace
}  // namespace delegate_cost_test
}  // namespace tutti
