#include "framework/base/step_uses.h"

#include <gtest/gtest.h>

#include <memory>

#include "framework/base/last_holder.h"

namespace tutti {
namespace step_uses_test {

TEST(StepUsesTest, AWaiterIsHeldUntilTheLastUseOfItsStepEnds) {
  StepUses uses;
  StepUses::Use one = uses.Begin(1);
  StepUses::Use other = uses.Begin(1);
  StepUses::Use of_another_step = uses.Begin(2);
  int num_ended = 0;
  for (int i = 0; i < 2; ++i) {
    uses.HoldUntilEnd(1, std::make_shared<LastHolder>([&] { ++num_ended; }));
  }
  one.reset();
  EXPECT_EQ(num_ended, 0);
  other.reset();
  EXPECT_EQ(num_ended, 2);
}

TEST(StepUsesTest, NobodyIsHeldWhereNothingGoesOn) {
  StepUses uses;
  uses.Begin(1);
  bool has_ended = false;
  uses.HoldUntilEnd(1, std::make_shared<LastHolder>([&] { has_ended = true; }));
  EXPECT_TRUE(has_ended);
}

}  // namespace step_uses_test
}  // namespace tutti
