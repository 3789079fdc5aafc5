// Tests how a task joins, watches the health of others, and leaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "framework/control/control_channel.h"
#include "resolvers/leader/leadership.h"
#include "resolvers/membership/cluster_join.h"
#include "resolvers/membership/cluster_leave.h"
#include "resolvers/membership/task_health.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace membership_test {

using testing::ElementsAre;
using testing::IsEmpty;

// Keeps the requests, which are all of one kind, for the test to answer.
class KeepingChannel final : public ControlChannel {
 public:
  explicit KeepingChannel(proto::ControlRequest::KindCase kind) : kind_(kind) {}

  void Call(int task, proto::ControlRequest request, ControlCallOptions options,
            ControlDone done) override {
    EXPECT_EQ(request.kind_case(), kind_);
    calls.emplace_back(task, std::move(done));
    if (options.cancellation == nullptr) return;
    options.cancellation->Watch([this, i = calls.size() - 1](auto& reason) {
      if (calls[i].second == nullptr) return;
      std::exchange(calls[i].second, nullptr)(reason);
    });
  }

  // Answers the task's requests that wait.
  void Answer(int task, const ControlAnswer& answer = proto::ControlReply()) {
    for (size_t i = 0, end = calls.size(); i < end; ++i) {
      if (calls[i].first != task || calls[i].second == nullptr) continue;
      std::exchange(calls[i].second, nullptr)(answer);
    }
  }

  std::deque<std::pair<int, ControlDone>> calls;

 private:
  const proto::ControlRequest::KindCase kind_;
};

TEST(ClusterJoinTest, ProgressRunsOneAtATimeAndBeforeDone) {
  SimulatedEnvironment environment(/*seed=*/1);
  const auto channel =
      std::make_shared<KeepingChannel>(proto::ControlRequest::kHello);
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
       .leader = [] { return 0; },
       .heard = [](int,
                   const proto::HelloReply&) { return std::vector<int>(); },
       .has_called = [](int) { return false; }},
      [&](absl::Status status) {
        MutexLock lock(&mu);
        ended = std::move(status);
      });
  proto::ControlReply reply;
  reply.mutable_hello();
  std::thread first([&] { channel->Answer(1, reply); });
  is_blocked.WaitForNotification();
  channel->Answer(2, reply);
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
  const auto channel =
      std::make_shared<KeepingChannel>(proto::ControlRequest::kHello);
  std::optional<absl::Status> ended;
  std::vector<int> silent;
  ClusterJoin::Start(
      {.cluster = {.addresses = {"a:1", "b:1", "c:1"}},
       .environment = environment.get(),
       .channel = channel,
       .deadline = environment.get().clock->Now() + absl::Seconds(3),
       .leader = [] { return 0; },
       .heard = [](int,
                   const proto::HelloReply&) { return std::vector<int>(); },
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
  channel->Answer(1, reply);
  environment.Advance(absl::Seconds(3));
  EXPECT_EQ(ended, std::nullopt);
  channel->Answer(2, absl::DeadlineExceededError("cannot reach c"));
  EXPECT_EQ(ended, absl::DeadlineExceededError(
                       "task 0 (a:1) waited 3.0 s for task 2 (c:1), which "
                       "never answered; the last error was: cannot reach c"));
  EXPECT_THAT(silent, ElementsAre(2));
  environment.Advance(absl::Seconds(3));
  EXPECT_EQ(channel->calls.size(), 2u);  // Task 2 gets no second request.
}

// Task 2 of three, which joins.
class LedClusterJoinTest : public testing::Test {
 protected:
  void Start() {
    ClusterJoin::Start(
        {.cluster = {.addresses = {"a:1", "b:1", "c:1"}, .this_task = 2},
         .environment = environment_.get(),
         .channel = channel_,
         .deadline = environment_.get().clock->Now() + absl::Seconds(9),
         .leader = [this] { return leader_; },
         .heard = [this](int, const proto::HelloReply&)
             -> absl::StatusOr<std::vector<int>> { return named_; },
         .has_called = [](int) { return false; }},
        [this](absl::Status status) { ended_ = std::move(status); });
  }
  void Answer(int task, const std::vector<int>& lost = {},
              bool replaces = false) {
    proto::ControlReply reply;
    for (int gone : lost) reply.mutable_hello()->add_lost_tasks(gone);
    reply.mutable_hello()->set_replaces(replaces);
    channel_->Answer(task, reply);
  }

  // Returns the tasks that have been called since the last time.
  std::vector<int> Called() {
    environment_.Advance(absl::Milliseconds(300));
    std::vector<int> tasks;
    for (; num_seen_ < channel_->calls.size(); ++num_seen_) {
      tasks.push_back(channel_->calls[num_seen_].first);
    }
    return tasks;
  }

  SimulatedEnvironment environment_{/*seed=*/1};
  const std::shared_ptr<KeepingChannel> channel_ =
      std::make_shared<KeepingChannel>(proto::ControlRequest::kHello);
  int leader_ = 0;
  std::vector<int> named_;  // Tasks that an answer names.
  std::optional<absl::Status> ended_;
  size_t num_seen_ = 0;
};

TEST_F(LedClusterJoinTest, AsksTheLeaderUntilItKnowsAll) {
  Start();
  EXPECT_THAT(Called(), ElementsAre(0));
  Answer(0);
  EXPECT_THAT(Called(), ElementsAre(0));
  named_ = {1};
  Answer(0);
  EXPECT_EQ(ended_, absl::OkStatus());
  EXPECT_EQ(environment_.num_alarms(), 0u);
}

TEST_F(LedClusterJoinTest, AsksOthersWhileTheLeaderIsSilent) {
  Start();
  EXPECT_THAT(Called(), ElementsAre(0));
  channel_->Answer(0, absl::UnavailableError("connection refused"));
  EXPECT_THAT(Called(), ElementsAre(1));
  Answer(1);  // Does not know either.
  EXPECT_THAT(Called(), ElementsAre(0));
  channel_->Answer(0, absl::UnavailableError("connection refused"));
  EXPECT_THAT(Called(), ElementsAre(1));
  Answer(1, /*lost=*/{0});
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(LedClusterJoinTest, TheNewProcessOfATaskSaysHelloToAll) {
  Start();
  EXPECT_THAT(Called(), ElementsAre(0));
  named_ = {1};
  Answer(0, /*lost=*/{}, /*replaces=*/true);
  EXPECT_EQ(ended_, std::nullopt);
  EXPECT_THAT(Called(), ElementsAre(1));
  Answer(1);
  EXPECT_EQ(ended_, absl::OkStatus());
}

TEST_F(LedClusterJoinTest, OneThatComesToLeadSaysHelloToAll) {
  Start();
  EXPECT_THAT(Called(), ElementsAre(0));
  leader_ = 2;
  Answer(0);
  EXPECT_THAT(Called(), ElementsAre(1));
}

TEST_F(LedClusterJoinTest, ItsDeadlineNamesTheLeaderThatNeverAnswered) {
  Start();
  while (!ended_.has_value()) {
    channel_->Answer(0, absl::UnavailableError("connection refused"));
    Answer(1);
    environment_.Advance(absl::Seconds(1));
  }
  EXPECT_EQ(ended_, absl::DeadlineExceededError(
                        "task 2 (c:1) waited 9.0 s for task 0 (a:1), which "
                        "never answered; the last error was: connection "
                        "refused"));
}

// Task of three, which leaves. A process is a task and an incarnation.
class ClusterLeaveTest : public testing::Test {
 public:
  explicit ClusterLeaveTest(int this_task = 0)
      : leave_(ClusterLeave::Create(
            {.cluster = {.addresses = {"a:1", "b:1", "c:1"},
                         .this_task = this_task},
             .environment = environment_.get(),
             .channel = channel_,
             .leadership = leadership_})) {}

  // Requests keep their callers, which keep the channel.
  ~ClusterLeaveTest() override {
    leave_->End(absl::CancelledError("the test is over"));
    channel_->calls.clear();
  }

  ClusterLeaveTest& Leave() {
    ended_.reset();
    leave_->Leave(environment_.get().clock->Now() + absl::Seconds(2),
                  [this](absl::Status status) { ended_ = std::move(status); });
    return *this;
  }
  ClusterLeaveTest& Found(int task, uint64_t incarnation) {
    leave_->OnFound({task, incarnation});
    return *this;
  }
  ClusterLeaveTest& Lost(int task, uint64_t incarnation) {
    leadership_->MarkLost(task);
    leave_->OnLost({task, incarnation});
    return *this;
  }
  ClusterLeaveTest& Goodbye(int task, uint64_t incarnation) {
    proto::Goodbye message;
    message.set_hold_ms(1000);
    leave_->OnGoodbye(
        {task, incarnation}, message, std::make_shared<Cancellation>(),
        [this, task](const ControlAnswer& answer) { answers_[task] = answer; });
    return *this;
  }
  ClusterLeaveTest& ExpectWaits() {
    EXPECT_EQ(ended_, std::nullopt);
    return *this;
  }
  void ExpectEnded() { EXPECT_EQ(ended_, absl::OkStatus()); }

  // Restarts task 1 while this task leaves, in vain.
  ClusterLeaveTest& LeaveWhileOneComesBack() {
    Found(1, 5).Leave().Lost(1, 5).Found(1, 6);
    environment_.Advance(absl::Seconds(3));
    EXPECT_THAT(ended_,
                testing::Optional(IsDeadlineExceeded("task 2 (c:1) did not")));
    return *this;
  }

 protected:
  SimulatedEnvironment environment_{/*seed=*/1};
  const std::shared_ptr<KeepingChannel> channel_ =
      std::make_shared<KeepingChannel>(proto::ControlRequest::kGoodbye);
  const std::shared_ptr<Leadership> leadership_ =
      std::make_shared<Leadership>(3);
  const std::shared_ptr<ClusterLeave> leave_;
  std::optional<absl::Status> ended_;
  std::map<int, ControlAnswer> answers_;  // To the goodbyes, by task.
};

// Answer of a leader.
ControlAnswer Missing(const std::vector<int>& tasks) {
  proto::ControlReply reply;
  proto::GoodbyeReply* const goodbye = reply.mutable_goodbye();
  for (int task : tasks) goodbye->add_missing_tasks(task);
  return reply;
}

MATCHER_P(NamesMissing, tasks, "") {
  return arg.ok() &&
         ExplainMatchResult(testing::ElementsAreArray(tasks),
                            arg->goodbye().missing_tasks(), result_listener);
}

TEST_F(ClusterLeaveTest, EndsWhenAllHaveSaidGoodbyeAndKnowThatAllHave) {
  Found(1, 6).Found(2, 5).Leave().Goodbye(1, 6).ExpectWaits();
  environment_.Advance(absl::Milliseconds(1100));
  EXPECT_THAT(answers_[1], NamesMissing(std::vector<int>{2}));
  Goodbye(2, 5).ExpectWaits();  // Task 1 does not know.
  EXPECT_THAT(answers_[2], NamesMissing(std::vector<int>{}));
  EXPECT_THAT(leave_->WaitsFor(), ElementsAre(1));
  Goodbye(1, 6).ExpectEnded();
  EXPECT_THAT(answers_[1], NamesMissing(std::vector<int>{}));
}

TEST_F(ClusterLeaveTest, OneThatIsLostBeforeItKnowsIsNotWaitedFor) {
  Found(1, 6).Found(2, 5).Leave().Goodbye(1, 6);
  environment_.Advance(absl::Milliseconds(1100));
  Goodbye(2, 5).ExpectWaits().Lost(1, 6).ExpectEnded();
}

TEST_F(ClusterLeaveTest, ALeaderThatDoesNotLeaveIsMissing) {
  Found(1, 6).Found(2, 5).Goodbye(1, 6).Goodbye(2, 5);
  environment_.Advance(absl::Milliseconds(1100));
  EXPECT_THAT(answers_[1], NamesMissing(std::vector<int>{0}));
  Goodbye(1, 6).Goodbye(2, 5).Leave().ExpectEnded();
}

TEST_F(ClusterLeaveTest, OneThatIsLostIsNotWaitedFor) {
  Lost(1, 5).Leave().Goodbye(2, 5).ExpectEnded();
}

TEST_F(ClusterLeaveTest, OneThatIsLostMeanwhileIsNotWaitedFor) {
  Leave().Goodbye(2, 5).ExpectWaits().Lost(1, 5).ExpectEnded();
}

TEST_F(ClusterLeaveTest, OneThatCameBackIsWaitedFor) {
  Lost(1, 5).Found(1, 6).Leave().Goodbye(2, 5).ExpectWaits();
  Goodbye(1, 6).ExpectEnded();
}

// Process 5 is lost before the other one is found.
TEST_F(ClusterLeaveTest, AWordOfLossThatIsOvertakenLosesNobodyElse) {
  Found(1, 5).Found(1, 6).Leave().Lost(1, 5).Goodbye(2, 5);
  ExpectWaits().Lost(1, 6).ExpectEnded();
}

TEST_F(ClusterLeaveTest, OneWhoseLossIsToldFirstIsNotWaitedFor) {
  Lost(1, 5).Found(1, 5).Leave().Goodbye(2, 5).ExpectEnded();
}

TEST_F(ClusterLeaveTest, OneThatCameBackMeanwhileIsWaitedForTheNextTime) {
  LeaveWhileOneComesBack().Leave().Goodbye(2, 5);
  ExpectWaits().Lost(1, 6).ExpectEnded();
}

TEST_F(ClusterLeaveTest, ItsGoodbyeBetweenTheTwoCounts) {
  LeaveWhileOneComesBack().Goodbye(1, 6).Leave().Goodbye(2, 5).ExpectEnded();
}

TEST_F(ClusterLeaveTest, TheGoodbyeOfTheOneBeforeHasNobodyElseWaitedFor) {
  Found(1, 5).Leave().Found(1, 6).Goodbye(1, 5).Goodbye(2, 5).ExpectEnded();
}

TEST_F(ClusterLeaveTest, OneThatComesBackBeforeItsLossIsToldIsNotWaitedFor) {
  Found(1, 5).Leave().Found(1, 6).Lost(1, 5).Goodbye(2, 5).ExpectEnded();
}

TEST_F(ClusterLeaveTest, AGoodbyeThatOvertakesTheWordOfItsProcessCounts) {
  Goodbye(1, 6).Found(1, 6).Leave().Goodbye(2, 5).ExpectEnded();
}

// The former process's goodbye comes late.
TEST_F(ClusterLeaveTest, AGoodbyeIsThatOfItsProcessAlone) {
  Found(1, 5).Lost(1, 5).Found(1, 6).Goodbye(1, 5).Leave().Goodbye(2, 5);
  ExpectWaits().Goodbye(1, 6).ExpectEnded();
}

// Loss of the former process is reported last.
TEST_F(ClusterLeaveTest, WhoHasSaidGoodbyeIsNotWaitedForAfterTheLossOfAnother) {
  Found(1, 5).Found(1, 6).Leave().Goodbye(1, 6).Goodbye(2, 6);
  ExpectWaits().Lost(1, 5).ExpectEnded();
}

TEST_F(ClusterLeaveTest, ASecondOneIsRefusedWhileTheFirstWaits) {
  Leave();
  absl::Status second;
  leave_->Leave(absl::InfiniteFuture(),
                [&](absl::Status status) { second = std::move(status); });
  EXPECT_THAT(second, IsFailedPrecondition("leaving already"));
  ExpectWaits().Goodbye(1, 5).Goodbye(2, 5).ExpectEnded();
}

TEST_F(ClusterLeaveTest, EndsWithTheReasonNowAndLater) {
  const absl::Status reason = absl::CancelledError("enough");
  Leave();
  leave_->End(reason);
  EXPECT_EQ(ended_, reason);
  EXPECT_EQ(environment_.num_alarms(), 0u);
  Leave();
  EXPECT_EQ(ended_, reason);
}

TEST_F(ClusterLeaveTest, TheDeadlineNamesWhoHasNotSaidGoodbye) {
  Leave();
  environment_.Advance(absl::Seconds(3));
  EXPECT_THAT(ended_, testing::Optional(IsDeadlineExceeded(
                          "task 0 (a:1) is done",
                          "task 1 (b:1), task 2 (c:1) did not")));
  Leave().Goodbye(2, 5);
  environment_.Advance(absl::Seconds(3));
  EXPECT_THAT(ended_,
              testing::Optional(IsDeadlineExceeded("task 1 (b:1) did not")));
}

// Task 1, which task 0 leads at first.
class LedClusterLeaveTest : public ClusterLeaveTest {
 public:
  LedClusterLeaveTest() : ClusterLeaveTest(/*this_task=*/1) {}

 protected:
  std::vector<int> Called() const {
    std::vector<int> tasks;
    for (const auto& [task, done] : channel_->calls) tasks.push_back(task);
    return tasks;
  }
};

TEST_F(LedClusterLeaveTest, AsksTheLeaderUntilAllAreDone) {
  Leave();
  EXPECT_THAT(leave_->WaitsFor(), ElementsAre(0));
  channel_->Answer(0, Missing({2}));
  ExpectWaits();
  environment_.Advance(absl::Milliseconds(200));
  EXPECT_THAT(Called(), ElementsAre(0, 0));
  channel_->Answer(0, Missing({}));
  ExpectEnded();
  EXPECT_EQ(environment_.num_alarms(), 0u);
}

TEST_F(LedClusterLeaveTest, TakesNoGoodbye) {
  Goodbye(2, 5);
  EXPECT_THAT(answers_[2].status(),
              IsUnavailable("task 1 (b:1) does not lead"));
}

TEST_F(LedClusterLeaveTest, GoesToTheNextLeader) {
  Found(0, 5).Found(2, 5).Leave().Lost(0, 5).ExpectWaits();
  EXPECT_THAT(leave_->WaitsFor(), ElementsAre(2));
  Goodbye(2, 5).ExpectEnded();
  EXPECT_THAT(answers_[2], NamesMissing(std::vector<int>{}));
  EXPECT_THAT(Called(), ElementsAre(0));
}

// Its answer may have been lost with it.
TEST_F(LedClusterLeaveTest, EndsIfAllOthersAreGone) {
  Found(0, 5).Found(2, 5).Leave().Lost(0, 5).ExpectWaits().Lost(2, 5);
  ExpectEnded();
}

TEST_F(LedClusterLeaveTest, TheDeadlineSaysWhatTheLeaderSays) {
  Leave();
  channel_->Answer(0, Missing({2}));
  environment_.Advance(absl::Seconds(3));
  EXPECT_THAT(ended_,
              testing::Optional(IsDeadlineExceeded(
                  "task 1 (b:1) is done, but task 2 (c:1) did not say so")));
  channel_->calls.clear();
  Leave();
  channel_->Answer(0, absl::UnavailableError("connection refused"));
  environment_.Advance(absl::Seconds(3));
  EXPECT_THAT(ended_, testing::Optional(IsDeadlineExceeded(
                          "task 0 (a:1), which leads, does not take its "
                          "goodbye: connection refused")));
}

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

class TaskHealthTest : public testing::Test {
 protected:
  void Answer(size_t call, uint64_t incarnation = 5) {
    proto::ControlReply alive;
    alive.mutable_heartbeat()->set_incarnation(incarnation);
    std::move(channel_->calls[call].second)(alive);
  }

  const HealthProfile profile_ = HealthProfile::Fast();
  LateClock clock_;
  const std::shared_ptr<KeepingChannel> channel_ =
      std::make_shared<KeepingChannel>(proto::ControlRequest::kHeartbeat);
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
  EXPECT_THAT(silent_, ElementsAre(1));
}

TEST_F(TaskHealthTest, WhoRefusesThisTaskOrCannotBeReachedIsNotSilent) {
  for (const absl::Status& why :
       {absl::FailedPreconditionError("must start again"),
        absl::UnavailableError("connection closed")}) {
    health_->Update();
    ASSERT_EQ(channel_->calls.size(), 1u);
    std::move(channel_->calls[0].second)(why);
    channel_->calls.clear();
    EXPECT_EQ(health_->state(1), TaskHealth::State::kLost);
    // A new process answers.
    EXPECT_TRUE(health_->OnHeard({1, static_cast<uint64_t>(num_lost_)}).ok());
  }
  EXPECT_EQ(num_lost_, 2);
  EXPECT_THAT(silent_, IsEmpty());
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
    std::move(channel_->calls[1].second)(why);
    EXPECT_EQ(health_->state(1), TaskHealth::State::kLost);
    ++incarnation;
  }
  EXPECT_EQ(num_lost_, 3);
  EXPECT_THAT(refused_, IsEmpty());
  EXPECT_THAT(silent_, IsEmpty());
}

TEST_F(TaskHealthTest, ATaskThatHasAnsweredMaySayThatThisOneIsLost) {
  ASSERT_TRUE(health_->OnHeard({1, 5}).ok());
  ASSERT_TRUE(health_->OnHeard({1, 6}).ok());
  const absl::Status verdict = health_->OnHeard({1, 5});  // Sent below.
  ASSERT_EQ(channel_->calls.size(), 2u);
  clock_.now += profile_.hold;
  Answer(1, 6);
  ASSERT_EQ(channel_->calls.size(), 3u);
  std::move(channel_->calls[2].second)(verdict);
  EXPECT_THAT(refused_, ElementsAre(1));
}

TEST_F(TaskHealthTest, ItSaysSoThoughTheReasonIsTooLongForTheWire) {
  constexpr size_t kMaxMessageBytes = 4096;  // Limit of gRPC's status.
  ASSERT_TRUE(health_->OnHeard({1, 5}).ok());
  std::move(channel_->calls[0].second)(
      absl::UnavailableError(std::string(kMaxMessageBytes, 'x')));
  EXPECT_EQ(num_lost_, 1);
  const absl::Status verdict = health_->OnHeard({1, 5});
  ASSERT_GT(verdict.message().size(), kMaxMessageBytes);
  ASSERT_TRUE(health_->OnHeard({1, 6}).ok());
  ASSERT_EQ(channel_->calls.size(), 2u);
  clock_.now += profile_.hold;
  Answer(1, 6);
  ASSERT_EQ(channel_->calls.size(), 3u);
  std::move(channel_->calls[2].second)(absl::Status(
      verdict.code(), verdict.message().substr(0, kMaxMessageBytes)));
  EXPECT_THAT(refused_, ElementsAre(1));
}

// Processes of an earlier job may still be there.
TEST_F(TaskHealthTest, ATaskThatWasNeverHeardOfIsNotLostToAStranger) {
  health_->Update();
  ASSERT_EQ(channel_->calls.size(), 1u);
  std::move(channel_->calls[0].second)(
      absl::UnauthenticatedError("another token"));
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

}  // namespace membership_test
}  // namespace tutti
