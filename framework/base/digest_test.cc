#include "framework/base/digest.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tutti {
namespace digest_test {

uint64_t Digest(const std::vector<int64_t>& numbers) {
  return DigestOf(numbers);
}

TEST(DigestTest, DiffersWhereNumbersOrTheirOrderDo) {
  EXPECT_NE(Digest({1, 2}), Digest({2, 1}));
  EXPECT_NE(Digest({1, 2}), Digest({1, 3}));
  EXPECT_NE(Digest({1, 2}), Digest({1, 2, 0}));
  EXPECT_NE(Digest({}), Digest({0}));
}

// Fixed values, because processes compare digests.
TEST(DigestTest, IsTheSameInEveryProcess) {
  EXPECT_EQ(Digest({1, 2}), uint64_t{0xbcd9dbb49673066b});
}

}  // namespace digest_test
}  // namespace tutti
