#include "outfeed/byte_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace tutti {
namespace byte_budget_test {

class Waiter : public ByteBudget::Waiter {
 public:
  void OnGranted() override { ++num_granted; }
  int num_granted = 0;
};

class ByteBudgetTest : public testing::Test {
 protected:
  ByteBudget budget_{10};
  std::shared_ptr<Waiter> first_ = std::make_shared<Waiter>();
  std::shared_ptr<Waiter> second_ = std::make_shared<Waiter>();
};

TEST_F(ByteBudgetTest, GrantsToTheLimitAndNoByteMore) {
  EXPECT_TRUE(budget_.TryTake(4));
  EXPECT_FALSE(budget_.TryTake(7));
  EXPECT_TRUE(budget_.TryTake(6));
  EXPECT_FALSE(budget_.TryTake(1));
  EXPECT_TRUE(budget_.TryTake(0));
  EXPECT_EQ(budget_.used_bytes(), 10);
}

TEST_F(ByteBudgetTest, GrantsMoreThanTheLimitWhenNoneIsUsed) {
  const int64_t large = (int64_t{1} << 62) - 1;
  EXPECT_TRUE(budget_.TryTake(large));
  EXPECT_FALSE(budget_.TryTake(1));
  budget_.Release(large);
  EXPECT_TRUE(budget_.TryTake(1));
  EXPECT_FALSE(budget_.TryTake(large));
}

TEST_F(ByteBudgetTest, GrantsInOrderOfArrival) {
  ASSERT_TRUE(budget_.TryTake(10));
  EXPECT_FALSE(budget_.TakeOrWait(11, first_));
  EXPECT_FALSE(budget_.TakeOrWait(1, second_));
  budget_.Release(5);
  EXPECT_EQ(second_->num_granted, 0);  // Room, but behind `first_`.
  EXPECT_FALSE(budget_.TryTake(1));
  budget_.Release(5);
  EXPECT_EQ(first_->num_granted, 1);
  EXPECT_EQ(budget_.used_bytes(), 11);
  budget_.Release(11);
  EXPECT_EQ(second_->num_granted, 1);
  EXPECT_EQ(budget_.used_bytes(), 1);
}

TEST_F(ByteBudgetTest, GrantsAllThatHaveRoom) {
  ASSERT_TRUE(budget_.TryTake(10));
  EXPECT_FALSE(budget_.TakeOrWait(4, first_));
  EXPECT_FALSE(budget_.TakeOrWait(6, second_));
  budget_.Release(10);
  EXPECT_EQ(first_->num_granted, 1);
  EXPECT_EQ(second_->num_granted, 1);
}

TEST_F(ByteBudgetTest, WhoStopsWaitingHoldsNobodyUp) {
  ASSERT_TRUE(budget_.TryTake(9));
  EXPECT_FALSE(budget_.TakeOrWait(2, first_));
  EXPECT_FALSE(budget_.TakeOrWait(1, second_));
  EXPECT_TRUE(budget_.StopWaiting(*first_));
  EXPECT_EQ(second_->num_granted, 1);
  EXPECT_FALSE(budget_.StopWaiting(*first_));
  EXPECT_FALSE(budget_.StopWaiting(*second_));
  budget_.Release(10);
  EXPECT_EQ(first_->num_granted, 0);
  EXPECT_EQ(budget_.used_bytes(), 0);
}

}  // namespace byte_budget_test
}  // namespace tutti
