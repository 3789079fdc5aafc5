#include "resolvers/membership/task_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tutti {
namespace task_health_test {

// Clock whose alarms ring when the test says so: they are too late to cancel.
class LateClock : public Clock {
 public:
  absl::Time Now() override { return now; }
  AlarmId CallAt(absl::Time, Work alarm) override {
    alarms.push_back(std::move(alarm));
    return alarms.size();
  }
  bool Cancel(AlarmId) override { return false; }

  absl::Time now = absl::UnixEpoch();
  std::deque<Work> alarms;
};

// Keeps the requests for the test to answer.
class HeldChannel : public ControlChannel {
 public:
  void Call(int, proto::ControlRequest, ControlCallOptions,
            ControlDone done) override {
    calls.push_back(std::move(done));
  }

  std::deque<ControlDone> calls;
};

class TaskHealthTest : public testing::Test {
 protected:
  void Answer(size_t call, uint64_t incarnation = 5) {
    proto::ControlReply alive;
    alive.mutable_heartbeat()->set_incarnation(incarnation);
    std::move(channel_->calls[call])(alive);
  }

  const HealthProfile profile_ = HealthProfile::Fast();
  LateClock clock_;
  const std::shared_ptr<HeldChannel> channel_ = std::make_shared<HeldChannel>();
  std::vector<int> watched_ = {1};
  int num_lost_ = 0;
  std::vector<int> silent_;
  std::vector<int> refused_;
  const std::shared_ptr<TaskHealth> health_ =
      std::make_shared<TaskHealth>(TaskHealth::Options{
          .cluster = {.addresses = {"a:1", "b:1"}, .this_task = 0},
          .environment = {.clock = &clock_},
          .channel = channel_,
          .profile = profile_,
          .watched = [this] { return watched_; },
          .lost = [this](const ControlCaller&,
                         const absl::Status&) { ++num_lost_; },
          .silent = [this](int task,
                           const absl::Status&) { silent_.push_back(task); },
          .refused = [this](int task,
                            const absl::Status&) { refused_.push_back(task); },
          .found = [](const ControlCaller&) {}});
};

TEST_F(TaskHealthTest, AnAnswerAtTheLastMomentLosesNobody) {
  health_->Update();
  ASSERT_EQ(channel_->calls.size(), 1u);
  ASSERT_EQ(clock_.alarms.size(), 1u);
  clock_.now += profile_.silence_limit;
  Answer(0);
  ASSERT_EQ(channel_->calls.size(), 2u);  // The second heartbeat is under way.
  std::move(clock_.alarms[0])();          // Alarm of the first heartbeat.
  EXPECT_EQ(num_lost_, 0);
  EXPECT_EQ(health_->state(1), TaskHealth::State::kUp);
  clock_.now += profile_.silence_limit;
  std::move(clock_.alarms[1])();
  EXPECT_EQ(num_lost_, 1);
  EXPECT_THAT(silent_, testing::ElementsAre(1));
}

TEST_F(TaskHealthTest, WhoRefusesThisTaskOrCannotBeReachedIsNotSilent) {
  for (const absl::Status& why :
       {absl::FailedPreconditionError("must start again"),
        absl::UnavailableError("connection closed")}) {
    health_->Update();
    ASSERT_EQ(channel_->calls.size(), 1u);
    std::move(channel_->calls[0])(why);
    channel_->calls.clear();
    EXPECT_EQ(health_->state(1), TaskHealth::State::kLost);
    // A new process answers.
    EXPECT_TRUE(health_->OnHeard({1, static_cast<uint64_t>(num_lost_)}).ok());
  }
  EXPECT_EQ(num_lost_, 2);
  EXPECT_THAT(silent_, testing::IsEmpty());
}

TEST_F(TaskHealthTest, AStrangerAtItsAddressIsNeitherTheTaskNorItsVerdict) {
  uint64_t incarnation = 5;
  for (const absl::Status& why :
       {absl::UnauthenticatedError("the call does not have this job's token"),
        absl::PermissionDeniedError("its certificate names another task"),
        absl::FailedPreconditionError("the caller is of job a, not b")}) {
    channel_->calls.clear();
    ASSERT_TRUE(health_->OnHeard({1, incarnation}).ok());
    clock_.now += profile_.hold;
    Answer(0, incarnation);
    ASSERT_EQ(channel_->calls.size(), 2u);
    std::move(channel_->calls[1])(why);
    EXPECT_EQ(health_->state(1), TaskHealth::State::kLost);
    ++incarnation;
  }
  EXPECT_EQ(num_lost_, 3);
  EXPECT_THAT(refused_, testing::IsEmpty());
  EXPECT_THAT(silent_, testing::IsEmpty());
}

TEST_F(TaskHealthTest, ATaskThatHasAnsweredMaySayThatThisOneIsLost) {
  ASSERT_TRUE(health_->OnHeard({1, 5}).ok());
  ASSERT_TRUE(health_->OnHeard({1, 6}).ok());
  const absl::Status verdict = health_->OnHeard({1, 5});  // Sent below.
  ASSERT_EQ(channel_->calls.size(), 2u);
  clock_.now += profile_.hold;
  Answer(1, 6);
  ASSERT_EQ(channel_->calls.size(), 3u);
  std::move(channel_->calls[2])(verdict);
  EXPECT_THAT(refused_, testing::ElementsAre(1));
}

TEST_F(TaskHealthTest, ItSaysSoThoughTheReasonIsTooLongForTheWire) {
  constexpr size_t kMaxMessageBytes = 4096;  // Limit of gRPC's status.
  ASSERT_TRUE(health_->OnHeard({1, 5}).ok());
  std::move(channel_->calls[0])(
      absl::UnavailableError(std::string(kMaxMessageBytes, 'x')));
  EXPECT_EQ(num_lost_, 1);
  const absl::Status verdict = health_->OnHeard({1, 5});
  ASSERT_GT(verdict.message().size(), kMaxMessageBytes);
  ASSERT_TRUE(health_->OnHeard({1, 6}).ok());
  ASSERT_EQ(channel_->calls.size(), 2u);
  clock_.now += profile_.hold;
  Answer(1, 6);
  ASSERT_EQ(channel_->calls.size(), 3u);
  std::move(channel_->calls[2])(absl::Status(
      verdict.code(), verdict.message().substr(0, kMaxMessageBytes)));
  EXPECT_THAT(refused_, testing::ElementsAre(1));
}

// Processes of an earlier job may still be there.
TEST_F(TaskHealthTest, ATaskThatWasNeverHeardOfIsNotLostToAStranger) {
  health_->Update();
  ASSERT_EQ(channel_->calls.size(), 1u);
  std::move(channel_->calls[0])(absl::UnauthenticatedError("another token"));
  EXPECT_EQ(health_->state(1), TaskHealth::State::kUnknown);
  EXPECT_EQ(num_lost_, 0);
}

// Answers under way at the suspicion do not settle it.
TEST_F(TaskHealthTest, ASuspicionIsFollowedByAHeartbeatOfItsOwn) {
  health_->Update();
  health_->Suspect(1);
  watched_.clear();
  health_->Update();
  clock_.now += profile_.hold;
  Answer(0);
  ASSERT_EQ(channel_->calls.size(), 2u);
  clock_.now += profile_.hold;
  Answer(1);
  EXPECT_EQ(channel_->calls.size(), 2u);
  EXPECT_EQ(health_->num_watched(), 0u);
}

}  // namespace task_health_test
}  // namespace tutti
