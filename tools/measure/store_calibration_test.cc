#include "tools/measure/store_calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace store_calibration_test {

using testing::HasSubstr;
using testing::SizeIs;

StoreTimes Times(int64_t bytes, int to_caches, int past_caches) {
  return {bytes, absl::Microseconds(to_caches),
          absl::Microseconds(past_caches)};
}

TEST(StoreCalibrationTest, BeginsWhereItIsNeverSlowerAgain) {
  EXPECT_EQ(PastCachesFrom({Times(1, 5, 4), Times(2, 9, 10), Times(4, 20, 19),
                            Times(8, 40, 30)}),
            4);
}

TEST(StoreCalibrationTest, NoiseIsNoLoss) {
  EXPECT_EQ(PastCachesFrom({Times(1, 100, 106), Times(2, 100, 80),
                            Times(4, 100, 105), Times(8, 100, 70)}),
            2);
}

TEST(StoreCalibrationTest, EqualTimesSpareTheCaches) {
  EXPECT_EQ(PastCachesFrom({Times(1, 5, 5), Times(2, 9, 9)}), 1);
}

TEST(StoreCalibrationTest, NeverMeansPastTheLargestThatWasMeasured) {
  EXPECT_EQ(PastCachesFrom({Times(1, 5, 4), Times(2, 9, 10)}), 4);
}

TEST(StoreCalibrationTest, MeasuresEachSizeBothWays) {
  const DefaultEnvironment environment(2);
  const auto times =
      MeasureStores(environment.get(),
                    {.min_bytes = 1 << 20, .max_bytes = 4 << 20, .rounds = 1});
  ASSERT_THAT(times, IsOk());
  ASSERT_THAT(*times, SizeIs(3));
  for (const StoreTimes& size : *times) {
    EXPECT_GT(size.to_caches, absl::ZeroDuration());
    EXPECT_GT(size.past_caches, absl::ZeroDuration());
  }
  EXPECT_EQ(times->back().bytes, 4 << 20);
}

TEST(StoreCalibrationTest, ADeadlineEndsIt) {
  const DefaultEnvironment environment(2);
  EXPECT_THAT(
      MeasureStores(environment.get(), {.deadline = absl::Nanoseconds(1)}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("deadline")));
}

}  // namespace store_calibration_test
}  // namespace tutti
