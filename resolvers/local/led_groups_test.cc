#include "resolvers/local/led_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace led_groups_test {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;

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
              StatusIs(StatusCode::kResourceExhausted,
                       HasSubstr("wanted fewer than 2")));
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

}  // namespace led_groups_test
}  // namespace tutti
