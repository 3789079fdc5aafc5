#include "resolvers/local/waiting_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tutti {
namespace waiting_calls_test {

using testing::ElementsAre;
using testing::IsEmpty;

WaitingCallPtr CallOf(std::string device_name) {
  auto call = std::make_shared<WaitingCall>();
  call->device_name = std::move(device_name);
  return call;
}

TEST(WaitingCallsTest, AreTakenInTheOrderInWhichTheyCame) {
  WaitingCalls calls;
  const auto first = CallOf("a");
  const auto second = CallOf("b");
  const auto third = CallOf("c");
  for (const auto& call : {first, second, third}) calls.Add(call);
  EXPECT_TRUE(calls.Remove(*second));
  calls.Add(second);
  EXPECT_THAT(calls.TakeAll(), ElementsAre(first, third, second));
  EXPECT_THAT(calls.TakeAll(), IsEmpty());
  EXPECT_FALSE(calls.HasCallOf("a"));
}

TEST(WaitingCallsTest, ADeviceHasACallUntilItsLastOneLeaves) {
  WaitingCalls calls;
  const auto first = CallOf("a");
  const auto again = CallOf("a");
  calls.Add(first);
  calls.Add(again);
  EXPECT_TRUE(calls.Remove(*first));
  EXPECT_TRUE(calls.HasCallOf("a"));
  EXPECT_TRUE(calls.Remove(*again));
  EXPECT_FALSE(calls.HasCallOf("a"));
}

TEST(WaitingCallsTest, ACallLeavesOnceAndFromItsOwnPlaceOnly) {
  WaitingCalls calls;
  WaitingCalls others;
  const auto call = CallOf("a");
  const auto other = CallOf("b");
  calls.Add(call);
  others.Add(other);
  EXPECT_FALSE(calls.Remove(*other));
  EXPECT_TRUE(calls.Remove(*call));
  EXPECT_FALSE(calls.Remove(*call));
}

}  // namespace waiting_calls_test
}  // namespace tutti
