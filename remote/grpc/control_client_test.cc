// Tests how calls end otherwise than with a plain answer.

#include "remote/grpc/control_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "remote/fake_services.h"
#include "remote/grpc/running_tasks_testing.h"
#include "remote/grpc/test_tasks.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace control_client_test {

// Answers a call once its caller withdraws it.
std::unique_ptr<ControlService> AnswersWhenWithdrawn(
    BlockingCounter* arrived, BlockingCounter* answered) {
  return std::make_unique<FunctionService>(
      [=](const ControlCaller&, const proto::ControlRequest&,
          std::shared_ptr<Cancellation> withdrawn, ControlDone done) {
        arrived->DecrementCount();
        withdrawn->Watch([answered, done = std::move(done)](
                             const absl::Status& reason) mutable {
          std::move(done)(reason);
          answered->DecrementCount();
        });
      });
}

auto IsNoAnswerFor3Seconds(TestTasks& tasks) {
  return StatusIs(
      absl::StatusCode::kDeadlineExceeded,
      absl::StrCat("no answer from task 1 (", tasks.address(1), ") for 3.0 s"));
}

TEST(ControlClientTest, ACancelledCallEndsWithTheReasonAndReachesTheService) {
  BlockingCounter arrived(1), withdrawn(1);
  TestTasks tasks(2);
  tasks.set_control(AnswersWhenWithdrawn(&arrived, &withdrawn));
  tasks.StartAll();
  const auto cancellation = std::make_shared<Cancellation>();
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1),
                   {.cancellation = cancellation});
  arrived.Wait();
  cancellation->Cancel(absl::AbortedError("enough"));
  EXPECT_THAT(call.Wait(), StatusIs(absl::StatusCode::kAborted, "enough"));
  withdrawn.Wait();
}

TEST(ControlClientTest, ACallThatIsCancelledBeforeItBeginsEnds) {
  RunningTasks tasks(2);
  const auto cancellation = std::make_shared<Cancellation>();
  cancellation->Cancel(absl::AbortedError("enough"));
  EXPECT_THAT(Call(tasks, 0, 1, {.cancellation = cancellation}),
              StatusIs(absl::StatusCode::kAborted, "enough"));
}

TEST(ControlClientTest, ADeadlineEndsACallAndReachesTheService) {
  SimulatedEnvironment simulated(/*seed=*/1);
  BlockingCounter arrived(1), withdrawn(1);
  TestTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = simulated.get().clock;
  });
  tasks.set_control(AnswersWhenWithdrawn(&arrived, &withdrawn));
  tasks.StartAll();
  PendingCall call(
      tasks.transport(0).control(), 1, CleanupStep(1),
      {.deadline = simulated.get().clock->Now() + absl::Seconds(3)});
  arrived.Wait();
  simulated.Advance(absl::Seconds(3));
  EXPECT_THAT(call.Wait(), IsNoAnswerFor3Seconds(tasks));
  withdrawn.Wait();
}

// Delays the alarm for one time, as if it were held up as it began to run.
class HeldUpClock final : public Clock {
 public:
  HeldUpClock(Clock* clock, absl::Time held_up)
      : clock_(clock), held_up_(held_up) {}

  absl::Time Now() override {
    ++num_asked_;
    return clock_->Now();
  }
  AlarmId CallAt(absl::Time when, Work alarm) override {
    if (when != held_up_) return clock_->CallAt(when, std::move(alarm));
    alarm_ = std::move(alarm);
    return kHeldUp;
  }
  bool Cancel(AlarmId id) override {
    return id != kHeldUp && clock_->Cancel(id);
  }

  void RunAlarm() { std::exchange(alarm_, nullptr)(); }
  int num_requested() const { return num_asked_; }

 private:
  static constexpr AlarmId kHeldUp = ~AlarmId{0};

  Clock* const clock_;
  const absl::Time held_up_;
  std::atomic<int> num_asked_ = 0;
  Work alarm_;  // Owned by the thread that makes the call.
};

TEST(ControlClientTest, ADeadlineAfterTheCallAndItsTransportTouchesNeither) {
  SimulatedEnvironment simulated(/*seed=*/1);
  const absl::Time deadline = simulated.get().clock->Now() + absl::Seconds(3);
  HeldUpClock clock(simulated.get().clock, deadline);
  RunningTasks tasks(2, [&](int task, GrpcTransportOptions& options) {
    if (task == 0) options.environment.clock = &clock;
  });
  EXPECT_THAT(Call(tasks, 0, 1, {.deadline = deadline}), IsOk());
  tasks.Stop(0);
  const int num_requested = clock.num_requested();
  clock.RunAlarm();
  EXPECT_EQ(clock.num_requested(), num_requested);
}

TEST(ControlClientTest, ADeadlineSaysWhyTheTaskCouldNotBeReached) {
  SimulatedEnvironment simulated(/*seed=*/1);
  TestTasks tasks(2, [&](int, GrpcTransportOptions& options) {
    options.environment.clock = simulated.get().clock;
  });
  tasks.Start(0);
  PendingCall call(
      tasks.transport(0).control(), 1, CleanupStep(1),
      {.deadline = simulated.get().clock->Now() + absl::Milliseconds(150),
       .wait_until_reachable = true});
  // Wait for the second alarm: the call was refused, and will try again.
  while (simulated.num_alarms() < 2) std::this_thread::yield();
  simulated.Advance(absl::Milliseconds(150));
  EXPECT_THAT(call.Wait(),
              IsDeadlineExceeded(absl::StrCat("task 1 (", tasks.address(1)),
                                 "connection refused"));
}

TEST(ControlClientTest, ADeadlineDoesNotSayOfATaskThatWasReachedThatItIsNot) {
  SimulatedEnvironment simulated(/*seed=*/1);
  BlockingCounter arrived(1), withdrawn(1);
  TestTasks tasks(2, [&](int task, GrpcTransportOptions& options) {
    if (task == 0) options.environment.clock = simulated.get().clock;
  });
  tasks.set_control(AnswersWhenWithdrawn(&arrived, &withdrawn));
  tasks.Start(0);
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1),
                   {.deadline = simulated.get().clock->Now() + absl::Seconds(3),
                    .wait_until_reachable = true});
  // Wait for the second alarm: the call was refused, and will try again.
  while (simulated.num_alarms() < 2) std::this_thread::yield();
  tasks.Start(1);
  simulated.Advance(absl::Milliseconds(100));
  arrived.Wait();
  simulated.Advance(absl::Seconds(3));
  EXPECT_THAT(call.Wait(), IsNoAnswerFor3Seconds(tasks));
  withdrawn.Wait();
}

TEST(ControlClientTest, AClosedConnectionEndsTheCall) {
  BlockingCounter arrived(1), withdrawn(1);
  TestTasks tasks(2);
  tasks.set_control(AnswersWhenWithdrawn(&arrived, &withdrawn));
  tasks.StartAll();
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1), {});
  arrived.Wait();
  tasks.Stop(1);
  EXPECT_THAT(call.Wait(), StatusIs(absl::StatusCode::kUnavailable,
                                    absl::StrCat("task 1 (", tasks.address(1),
                                                 "): connection closed")));
}

TEST(ControlClientTest, ShutdownEndsCallsWithCancelled) {
  BlockingCounter arrived(1), withdrawn(1);
  TestTasks tasks(2);
  tasks.set_control(AnswersWhenWithdrawn(&arrived, &withdrawn));
  tasks.StartAll();
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1), {});
  // Ends even a call that waits for its next attempt.
  tasks.Stop(0);
  EXPECT_THAT(call.Wait(), IsCancelled("shut down"));
}

TEST(ControlClientTest, ShutdownEndsACallThatWaitsForATask) {
  TestTasks tasks(2);
  tasks.Start(0);
  PendingCall call(tasks.transport(0).control(), 1, CleanupStep(1),
                   {.wait_until_reachable = true});
  tasks.Stop(0);
  EXPECT_THAT(call.Wait(), IsCancelled("shut down"));
}

// Holds the calls for step 0 until their callers withdraw them.
std::unique_ptr<ControlService> HoldsStepZero(BlockingCounter* arrived) {
  return std::make_unique<FunctionService>(
      [=](const ControlCaller&, const proto::ControlRequest& request,
          std::shared_ptr<Cancellation> withdrawn, ControlDone done) {
        if (request.cleanup_step().step() != 0) {
          return std::move(done)(proto::ControlReply());
        }
        arrived->DecrementCount();
        withdrawn->Watch(
            [done = std::move(done)](const absl::Status& reason) mutable {
              std::move(done)(reason);
            });
      });
}

// Members of many collectives wait like this for a late task.
TEST(ControlClientTest, CallsThatWaitHoldUpNoOthers) {
  constexpr int kNumWaiting = 5000;
  BlockingCounter arrived(kNumWaiting), ended(kNumWaiting);
  TestTasks tasks(2);
  tasks.set_control(HoldsStepZero(&arrived));
  tasks.StartAll();
  const auto cancellation = std::make_shared<Cancellation>();
  ControlChannel& channel = tasks.transport(0).control();
  for (int i = 0; i < kNumWaiting; ++i) {
    channel.Call(1, CleanupStep(0), {.cancellation = cancellation},
                 [&](const ControlAnswer&) { ended.DecrementCount(); });
  }
  arrived.Wait();
  EXPECT_THAT(CallAndWait(channel, 1, CleanupStep(1)), IsOk());
  cancellation->Cancel(absl::CancelledError("enough"));
  ended.Wait();
}

TEST(ControlClientTest, MoreCallsThanTheBoundAreRefusedNotHeldUp) {
  BlockingCounter arrived(3), ended(3);
  TestTasks tasks(3, [](int, GrpcTransportOptions& options) {
    options.bounds.max_open_calls = 3;
  });
  tasks.set_control(HoldsStepZero(&arrived));
  tasks.StartAll();
  const auto cancellation = std::make_shared<Cancellation>();
  ControlChannel& channel = tasks.transport(0).control();
  for (int i = 0; i < 3; ++i) {
    channel.Call(1, CleanupStep(0), {.cancellation = cancellation},
                 [&](const ControlAnswer&) { ended.DecrementCount(); });
  }
  arrived.Wait();
  EXPECT_THAT(CallAndWait(channel, 1, CleanupStep(1)),
              IsResourceExhausted(absl::StrCat("task 0 (", tasks.address(0),
                                               ") has 3 calls open at task 1"),
                                  "no more are taken"));
  EXPECT_THAT(Call(tasks, 2, 1), IsOk());
  cancellation->Cancel(absl::CancelledError("enough"));
  ended.Wait();
  // Retry: a caller may see the end before the count drops.
  while (!CallAndWait(channel, 1, CleanupStep(1)).ok()) {
    std::this_thread::yield();
  }
}

TEST(ControlClientTest, ARequestThatIsTooLargeIsRefused) {
  RunningTasks tasks(2);
  proto::ControlRequest request;
  request.mutable_complete_params()->mutable_request()->set_merge_op(
      std::string(65 << 10, 'x'));
  EXPECT_THAT(CallAndWait(tasks.transport(0).control(), 1, request),
              IsResourceExhausted("65536", "task 1"));
}

TEST(ControlClientTest, AnAnswerThatIsTooLargeIsRefused) {
  TestTasks tasks(2);
  tasks.set_control(std::make_unique<FunctionService>(
      [](const ControlCaller&, const proto::ControlRequest& request,
         std::shared_ptr<Cancellation>, ControlDone done) {
        proto::ControlReply reply;
        reply.mutable_describe_waiting()->set_text(std::string(
            static_cast<size_t>(request.cleanup_step().step()), 'x'));
        std::move(done)(reply);
      }));
  tasks.StartAll();
  EXPECT_THAT(Call(tasks, 0, 1, {}, (4 << 20) - 100), IsOk());
  EXPECT_THAT(Call(tasks, 0, 1, {}, 4 << 20), IsResourceExhausted("4194304"));
}

}  // namespace control_client_test
}  // namespace tutti
