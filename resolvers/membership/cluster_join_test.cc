#include "resolvers/membership/cluster_join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "tests/doubles/simulated_environment.h"

namespace tutti {
namespace cluster_join_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Keeps the requests for the test to answer.
class KeepingChannel final : public ControlChannel {
 public:
  void Call(int task, proto::ControlRequest request,
            ControlCallOptions /*options*/, ControlDone done) override {
    EXPECT_TRUE(request.has_hello());
    calls[task] = std::move(done);
  }

  std::map<int, ControlDone> calls;
};

TEST(ClusterJoinTest, ProgressRunsOneAtATimeAndBeforeDone) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto channel = std::make_shared<KeepingChannel>();
  absl::Notification is_blocked, may_go_on;
  Mutex mu;
  std::vector<std::vector<int>> reports;
  std::optional<absl::Status> ended;
  ClusterJoin::Start(
      {.cluster = {.addresses = {"a:1", "b:1", "c:1"}},
       .environment = environment.get(),
       .channel = channel,
       .progress =
           [&](const std::vector<int>& missing) {
             if (missing == std::vector<int>{2}) {
               is_blocked.Notify();
               may_go_on.WaitForNotification();
             }
             MutexLock lock(&mu);
             EXPECT_FALSE(ended.has_value());
             reports.push_back(missing);
           },
       .heard = [](int, const proto::HelloReply&) { return absl::OkStatus(); },
       .has_called = [](int) { return false; }},
      [&](absl::Status status) {
        MutexLock lock(&mu);
        ended = std::move(status);
      });
  proto::ControlReply reply;
  reply.mutable_hello();
  std::thread first([done = std::move(channel->calls[1]), reply]() mutable {
    std::move(done)(reply);
  });
  is_blocked.WaitForNotification();
  std::exchange(channel->calls[2], nullptr)(reply);
  {
    MutexLock lock(&mu);
    EXPECT_EQ(ended, std::nullopt);
    EXPECT_THAT(reports, ElementsAre(ElementsAre(1, 2)));
  }
  may_go_on.Notify();
  first.join();
  MutexLock lock(&mu);
  EXPECT_EQ(ended, absl::OkStatus());
  EXPECT_THAT(reports,
              ElementsAre(ElementsAre(1, 2), ElementsAre(2), IsEmpty()));
}

// Call and join have the same deadline; here the call ends last.
TEST(ClusterJoinTest, AtItsDeadlineItSaysWhatTheCallsHaveFound) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto channel = std::make_shared<KeepingChannel>();
  std::optional<absl::Status> ended;
  std::vector<int> silent;
  ClusterJoin::Start(
      {.cluster = {.addresses = {"a:1", "b:1", "c:1"}},
       .environment = environment.get(),
       .channel = channel,
       .deadline = environment.get().clock->Now() + absl::Seconds(3),
       .heard = [](int, const proto::HelloReply&) { return absl::OkStatus(); },
       .has_called = [](int) { return false; },
       .silent =
           [&](int task, const absl::Status& why) {
             EXPECT_EQ(ended, std::nullopt);
             EXPECT_EQ(why, absl::UnavailableError(
                                "task 2 (c:1) has never answered, for 3.0 s"));
             silent.push_back(task);
           }},
      [&](absl::Status status) { ended = std::move(status); });
  proto::ControlReply reply;
  reply.mutable_hello();
  std::exchange(channel->calls[1], nullptr)(reply);
  environment.Advance(absl::Seconds(3));
  EXPECT_EQ(ended, std::nullopt);
  std::exchange(channel->calls[2],
                nullptr)(absl::DeadlineExceededError("cannot reach c"));
  EXPECT_EQ(ended, absl::DeadlineExceededError(
                       "task 0 (a:1) waited 3.0 s for task 2 (c:1), which "
                       "never answered; the last error was: cannot reach c"));
  EXPECT_THAT(silent, ElementsAre(2));
  environment.Advance(absl::Seconds(3));
  EXPECT_EQ(channel->calls[2], nullptr);  // Task 2 gets no second request.
}

}  // namespace cluster_join_test
}  // namespace tutti
