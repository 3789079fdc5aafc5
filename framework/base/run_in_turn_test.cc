#include "framework/base/run_in_turn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace run_in_turn_test {

using testing::ElementsAre;

TEST(RunInTurnTest, RunsInsideTheCall) {
  bool ran = false;
  RunInTurn([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(RunInTurnTest, WhatWorkAddsRunsAfterItInOrder) {
  std::vector<int> order;
  RunInTurn([&] {
    RunInTurn([&] {
      order.push_back(2);
      RunInTurn([&] { order.push_back(4); });
    });
    RunInTurn([&] { order.push_back(3); });
    order.push_back(1);
  });
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
}

void CountDown(int* left) {
  RunInTurn([left] {
    if (--*left > 0) CountDown(left);
  });
}

TEST(RunInTurnTest, ALongChainNeedsNoStack) {
  int left = 1000000;
  CountDown(&left);
  EXPECT_EQ(left, 0);
}

}  // namespace run_in_turn_test
}  // namespace tutti
