#include "resolvers/task_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace tutti {
namespace {

// Its alarms ring when the test says so: they are too late to be cancelled.
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

// Keeps what is asked, for the test to answer.
class HeldChannel : public ControlChannel {
 public:
  void Call(int, proto::ControlRequest, ControlCallOptions,
            ControlDone done) override {
    calls.push_back(std::move(done));
  }

  std::deque<ControlDone> calls;
};

TEST(TaskHealthTest, AnAnswerAtTheLastMomentLosesNobody) {
  const HealthProfile profile = HealthProfile::Fast();
  LateClock clock;
  HeldChannel channel;
  int num_lost = 0;
  const auto health = std::make_shared<TaskHealth>(TaskHealth::Options{
      .cluster = {.addresses = {"a:1", "b:1"}, .this_task = 0},
      .environment = {.clock = &clock},
      .channel = &channel,
      .profile = profile,
      .watched = [] { return std::vector<int>{1}; },
      .lost = [&num_lost](const ControlCaller&,
                          const absl::Status&) { ++num_lost; },
      .refused = [](int, const absl::Status&) {},
      .found = [](int) {}});
  health->Update();
  ASSERT_EQ(channel.calls.size(), 1u);
  ASSERT_EQ(clock.alarms.size(), 1u);
  clock.now += profile.silence_limit;
  proto::ControlReply alive;
  alive.mutable_heartbeat()->set_incarnation(5);
  std::move(channel.calls[0])(alive);
  ASSERT_EQ(channel.calls.size(), 2u);  // The next one is under way.
  std::move(clock.alarms[0])();         // That of the first.
  EXPECT_EQ(num_lost, 0);
  EXPECT_EQ(health->state(1), TaskHealth::State::kUp);
  clock.now += profile.silence_limit;
  std::move(clock.alarms[1])();
  EXPECT_EQ(num_lost, 1);
}

}  // namespace
}  // namespace tutti
