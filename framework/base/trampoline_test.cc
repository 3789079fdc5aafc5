#include "framework/base/trampoline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tutti {
namespace trampoline_test {

using testing::ElementsAre;

TEST(RunInTurnTest, RunsInsideTheCall) {
  bool ran = false;
  RunOnTrampoline([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(RunInTurnTest, WhatWorkAddsRunsAfterItInOrder) {
  std::vector<int> order;
  RunOnTrampoline([&] {
    RunOnTrampoline([&] {
      order.push_back(2);
      RunOnTrampoline([&] { order.push_back(4); });
    });
    RunOnTrampoline([&] { order.push_back(3); });
    order.push_back(1);
  });
  EXPECT_THAT(order, ElementsAre(1, 2, 3, 4));
}

void CountDown(int* left) {
  RunOnTrampoline([left] {
    if (--*left > 0) CountDown(left);
  });
}

TEST(RunInTurnTest, ALongChainNeedsNoStack) {
  int left = 1000000;
  CountDown(&left);
  EXPECT_EQ(left, 0);
}

}  // namespace trampoline_test
}  // namespace tutti
