#include "tools/base/sizes.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace sizes_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(SizesTest, UnitsArePowersOf1024) {
  EXPECT_EQ(*ParseBytes("0"), 0);
  EXPECT_EQ(*ParseBytes("4"), 4);
  EXPECT_EQ(*ParseBytes("64K"), 65536);
  EXPECT_EQ(*ParseBytes("64m"), 67108864);
  EXPECT_EQ(*ParseBytes("1G"), 1073741824);
}

TEST(SizesTest, OtherTextIsRefusedWithTheFormWanted) {
  for (absl::string_view text :
       {"", "K", "-4", "+4", " 4", "4.5M", "64KB", "64 K", "1T", "four",
        "9223372036854775808", "8589934592G"}) {
    const auto bytes = ParseBytes(text);
    EXPECT_FALSE(bytes.ok()) << text;
    EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("64K"));
  }
}

TEST(SizesTest, FormattedSizesAreReadBack) {
  for (int64_t bytes :
       {int64_t{0}, int64_t{4}, int64_t{1000}, int64_t{1024}, int64_t{65536},
        int64_t{1} << 30, (int64_t{1} << 30) + 1}) {
    EXPECT_EQ(*ParseBytes(FormatBytes(bytes)), bytes);
  }
  EXPECT_EQ(FormatBytes(65536), "64K");
  EXPECT_EQ(FormatBytes(1000), "1000");
}

TEST(SizesTest, SizesGrowByTheFactorUpToTheLast) {
  EXPECT_THAT(GeometricSizes(4, 64, 4), ElementsAre(4, 16, 64));
  EXPECT_THAT(GeometricSizes(4, 63, 4), ElementsAre(4, 16));
  EXPECT_THAT(GeometricSizes(5, 5, 2), ElementsAre(5));
  EXPECT_THAT(GeometricSizes(6, 5, 2), IsEmpty());
}

TEST(SizesTest, TheLargestSizeOverflowsNothing) {
  const int64_t max = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(GeometricSizes(1, max, 1024).back(), int64_t{1} << 60);
}

}  // namespace sizes_test
}  // namespace tutti
