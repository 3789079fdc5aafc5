#include "resolvers/local/led_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "resolvers/local/waiting_calls.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace led_groups_test {

using absl::StatusCode;
using testing::ElementsAre;
using testing::IsEmpty;

WaitingCallPtr CallFor(GroupKey key) {
  auto request = std::make_shared<CollectiveRequest>();
  request->group_key = key;
  request->group_size = 2;
  auto call = std::make_shared<WaitingCall>();
  call->device_name = "/job:worker/replica:0/task:0/device:CPU:0";
  call->request = std::move(request);
  return call;
}

WaitingCallPtr RemoteCallFor(GroupKey key) {
  auto call = CallFor(key);
  call->is_remote = true;
  return call;
}

class LedGroupsTest : public testing::Test {
 protected:
  LedGroups groups_{{.max_entries = 100, .max_unsettled = 2, .max_groups = 3}};
  LeaderOutbox outbox_;
};

TEST_F(LedGroupsTest, AGroupIsFoundUntilItIsDropped) {
  const auto added = groups_.FindOrAdd(*CallFor(7), &outbox_);
  ASSERT_THAT(added, IsOk());
  EXPECT_EQ(groups_.Find(7), added->get());
  EXPECT_THAT(groups_.Keys(), ElementsAre(7));
  groups_.Drop(7, absl::CancelledError("over"), &outbox_);
  EXPECT_EQ(groups_.Find(7), nullptr);
  EXPECT_EQ(groups_.num_groups(), 0u);
  EXPECT_THAT((*added)->status, StatusIs(StatusCode::kCancelled, "over"));
}

TEST_F(LedGroupsTest, ADroppedGroupAnswersItsCallsThroughTheOutbox) {
  const auto call = CallFor(7);
  const auto group = groups_.FindOrAdd(*call, &outbox_);
  ASSERT_THAT(group, IsOk());
  (*group)->waiting.Add(call);
  groups_.Drop(7, absl::CancelledError("over"), &outbox_);
  ASSERT_EQ(outbox_.answers.size(), 1u);
  const auto& [answered, answer] = outbox_.answers[0];
  EXPECT_EQ(answered, call);
  EXPECT_THAT(answer.params, StatusIs(StatusCode::kCancelled, "over"));
  EXPECT_EQ(answer.failed_generation, (*group)->generation);
}

TEST_F(LedGroupsTest, ARenewedGroupIsLaterThanTheEndedGeneration) {
  const auto group = groups_.FindOrAdd(*CallFor(7), &outbox_);
  ASSERT_THAT(group, IsOk());
  groups_.Renew(**group, /*ended=*/40);
  EXPECT_EQ((*group)->generation, 41u);
  EXPECT_EQ(groups_.last_generation(), 41u);
}

TEST_F(LedGroupsTest, OnlyTheFirstAndTheLastNewGroupChangeTheOutbox) {
  const auto changes = [&] {
    return std::exchange(outbox_.new_groups_changed, false);
  };
  ASSERT_THAT(groups_.FindOrAdd(*CallFor(1), &outbox_), IsOk());
  EXPECT_TRUE(changes());
  ASSERT_THAT(groups_.FindOrAdd(*CallFor(2), &outbox_), IsOk());
  EXPECT_FALSE(changes());
  groups_.Drop(1, absl::CancelledError("over"), &outbox_);
  EXPECT_FALSE(changes());
  groups_.Drop(2, absl::CancelledError("over"), &outbox_);
  EXPECT_TRUE(changes());
}

TEST_F(LedGroupsTest, RemoteMembersAloneAreLimited) {
  ASSERT_THAT(groups_.FindOrAdd(*RemoteCallFor(1), &outbox_), IsOk());
  ASSERT_THAT(groups_.FindOrAdd(*RemoteCallFor(2), &outbox_), IsOk());
  EXPECT_THAT(groups_.FindOrAdd(*RemoteCallFor(3), &outbox_),
              IsResourceExhausted("wanted fewer than 2"));
  EXPECT_THAT(groups_.FindOrAdd(*CallFor(3), &outbox_), IsOk());
}

TEST_F(LedGroupsTest, ALargerGroupThanTheDevicesLeftGetsTheReason) {
  groups_.SetDevicesLeft(1, absl::UnavailableError("lost"), &outbox_);
  EXPECT_THAT(groups_.FindOrAdd(*CallFor(7), &outbox_),
              StatusIs(StatusCode::kUnavailable, "lost"));
}

TEST_F(LedGroupsTest, ACallThatDoesNotWaitCannotLeave) {
  const auto call = CallFor(7);
  EXPECT_FALSE(groups_.Leave(call, absl::CancelledError("over"), &outbox_));
  ASSERT_THAT(groups_.FindOrAdd(*call, &outbox_), IsOk());
  EXPECT_FALSE(groups_.Leave(call, absl::CancelledError("over"), &outbox_));
}

TEST_F(LedGroupsTest, TheLastCallThatLeavesDropsItsGroup) {
  const auto call = CallFor(7);
  const auto group = groups_.FindOrAdd(*call, &outbox_);
  ASSERT_THAT(group, IsOk());
  (*group)->waiting.Add(call);
  EXPECT_TRUE(groups_.Leave(call, absl::CancelledError("over"), &outbox_));
  EXPECT_EQ(groups_.Find(7), nullptr);
  EXPECT_EQ(outbox_.answers.size(), 1u);
}

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

}  // namespace led_groups_test
}  // namespace tutti
