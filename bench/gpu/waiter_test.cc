#include "bench/gpu/waiter.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bench/gpu/pending_calls.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

class BlockingWaiterTest : public ::testing::Test {
 protected:
  const DefaultEnvironment environment_{/*num_workers=*/2};
  FakeGpuRuntime runtime_{{.environment = environment_.get()}};
};

TEST_F(BlockingWaiterTest, WaitsForAStream) {
  BlockingWaiter waiter(runtime_, *environment_.get().clock, {});
  const auto stream = NewStream(runtime_, 0);
  ASSERT_THAT(stream, IsOk());
  EXPECT_THAT(waiter.WaitFor(stream->get()), IsOk());
}

TEST_F(BlockingWaiterTest, AHeldStreamGoesOnWhenTheHoldEnds) {
  BlockingWaiter waiter(runtime_, *environment_.get().clock, {});
  const auto stream = NewStream(runtime_, 0);
  const auto event = NewEvent(runtime_, 0);
  ASSERT_THAT(stream, IsOk());
  ASSERT_THAT(event, IsOk());
  auto hold = waiter.Hold(stream->get(), absl::Minutes(10));
  ASSERT_THAT(hold, IsOk());
  ASSERT_THAT(runtime_.RecordEvent(event->get(), stream->get()), IsOk());
  EXPECT_FALSE(runtime_.IsDone(event->get()).value_or(true));
  EXPECT_TRUE((*hold)->Release());
  EXPECT_THAT(waiter.WaitFor(stream->get()), IsOk());
  EXPECT_TRUE(runtime_.IsDone(event->get()).value_or(false));
}

TEST_F(BlockingWaiterTest, AHeldStreamGoesOnAfterTheLimit) {
  BlockingWaiter waiter(runtime_, *environment_.get().clock, {});
  const auto stream = NewStream(runtime_, 0);
  ASSERT_THAT(stream, IsOk());
  auto hold = waiter.Hold(stream->get(), absl::Milliseconds(1));
  ASSERT_THAT(hold, IsOk());
  EXPECT_THAT(waiter.WaitFor(stream->get()), IsOk());
  EXPECT_FALSE((*hold)->Release());
}

TEST_F(BlockingWaiterTest, ReturnsTheFirstError) {
  BlockingWaiter waiter(runtime_, *environment_.get().clock, {});
  PendingCalls calls;
  calls.Add("one")(absl::OkStatus());
  calls.Add("two")(absl::InternalError("no luck"));
  calls.Add("three")(absl::AbortedError("too late"));
  EXPECT_THAT(waiter.Wait(calls),
              StatusIs(absl::StatusCode::kInternal, "two: no luck"));
}

TEST_F(BlockingWaiterTest, NoticesAGpuThatFails) {
  // Streams of this runtime run only when the test runs them.
  SimulatedEnvironment simulated(1);
  FakeGpuRuntime runtime({.environment = simulated.get()});
  BlockingWaiter waiter(
      runtime, *environment_.get().clock,
      {.limit = absl::Seconds(20), .look_every = absl::Milliseconds(1)});
  const auto stream = NewStream(runtime, 0);
  ASSERT_THAT(stream, IsOk());
  runtime.FailStream(stream->get(), absl::InternalError("it burns"));
  PendingCalls calls;
  ASSERT_THAT(runtime.CallHost(calls.Add("it"), stream->get()), IsOk());
  simulated.RunAll();
  ASSERT_FALSE(calls.have_ended());
  EXPECT_THAT(waiter.Wait(calls), IsInternal("it burns"));
}

TEST_F(BlockingWaiterTest, GivesUpWithTheNamesOfWhatHasNotEnded) {
  std::vector<absl::Status> given_up;
  BlockingWaiter waiter(runtime_, *environment_.get().clock,
                        {.limit = absl::Milliseconds(5),
                         .look_every = absl::Milliseconds(1),
                         .give_up = [&](const absl::Status& status) {
                           given_up.push_back(status);
                         }});
  PendingCalls calls;
  StatusCallback never = calls.Add("the second coming");
  calls.Add("the first")(absl::OkStatus());
  const auto is_late = StatusIs(absl::StatusCode::kDeadlineExceeded,
                                "not ended after 5ms: the second coming");
  EXPECT_THAT(waiter.Wait(calls), is_late);
  EXPECT_THAT(given_up, testing::ElementsAre(is_late));
  std::move(never)(absl::OkStatus());
}

TEST(PendingCallsTest, EndsMayComeAfterwards) {
  StatusCallback late;
  {
    PendingCalls calls;
    late = calls.Add("it");
    EXPECT_FALSE(calls.have_ended());
  }
  std::move(late)(absl::OkStatus());
}

}  // namespace
}  // namespace tutti
