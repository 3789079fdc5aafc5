#include "framework/base/oldest_half.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tutti {
namespace oldest_half_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

TEST(OldestHalfTest, IsWhatWasUsedLongestAgo) {
  EXPECT_THAT(OldestHalf<std::string>({{8, "d"}, {2, "b"}, {1, "a"}, {5, "c"}}),
              UnorderedElementsAre("a", "b"));
}

TEST(OldestHalfTest, IsRoundedUp) {
  EXPECT_THAT(OldestHalf<int>({{3, 30}, {1, 10}, {2, 20}}),
              UnorderedElementsAre(10, 20));
  EXPECT_THAT(OldestHalf<int>({{3, 30}}), ElementsAre(30));
}

TEST(OldestHalfTest, OfNothingIsNothing) {
  EXPECT_THAT(OldestHalf<int>({}), IsEmpty());
}

TEST(OldestHalfTest, OfEqualAgesIsAnyHalf) {
  EXPECT_EQ(OldestHalf<int>({{1, 1}, {1, 2}, {1, 3}, {1, 4}}).size(), 2u);
}

}  // namespace oldest_half_test
}  // namespace tutti
