#include "gpu/nccl/nccl_order.h"

#include "gtest/gtest.h"
#include "tutti/peer_access.h"

// Tests numbering and digests. nccl_group_test.cc tests processes with
// different orders.

namespace tutti {
namespace nccl_order_test {

TEST(NcclOrderTest, TheDigestIsOfAllLaunchesInTheirOrder) {
  const ExecKey one = {.generation = 1, .step = 1, .instance = 1};
  const ExecKey other = {.generation = 1, .step = 1, .instance = 2};
  NcclOrder order, same, reversed;
  order.Next(one);
  same.Next(one);
  reversed.Next(other);
  EXPECT_EQ(order.Next(other).launch, same.Next(other).launch);
  reversed.Next(one);
  EXPECT_NE(order.Next(one).launch.digest, reversed.Next(one).launch.digest);
}

TEST(NcclOrderTest, TheNthLaunchesOfAStepHaveOneKey) {
  NcclOrder order, other;
  other.Next({.step = 2, .instance = 7});
  const NcclTicket mine = order.Next({.step = 1, .instance = 1});
  const NcclTicket theirs = other.Next({.step = 1, .instance = 2});
  EXPECT_EQ(mine.key, theirs.key);
  EXPECT_NE(mine.launch, theirs.launch);
  EXPECT_NE(order.Next({.step = 1, .instance = 2}).key, mine.key);
}

}  // namespace nccl_order_test
}  // namespace tutti
