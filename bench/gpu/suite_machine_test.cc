#include "bench/gpu/suite_machine.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bench/gpu/host_area.h"
#include "bench/gpu/pending_calls.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// With threads.
class BlockingMachineTest : public ::testing::Test {
 protected:
  const DefaultEnvironment environment_{/*num_workers=*/2};
  FakeGpuRuntime runtime_{{.environment = environment_.get()}};
};

TEST_F(BlockingMachineTest, WaitsForAStream) {
  BlockingMachine machine(runtime_, environment_.get(), {});
  const auto stream = NewStream(runtime_, 0);
  ASSERT_THAT(stream, IsOk());
  EXPECT_THAT(machine.WaitFor(stream->get()), IsOk());
}

TEST_F(BlockingMachineTest, AHeldStreamGoesOnWhenTheHoldEnds) {
  BlockingMachine machine(runtime_, environment_.get(), {});
  const auto stream = NewStream(runtime_, 0);
  const auto event = NewEvent(runtime_, 0);
  ASSERT_THAT(stream, IsOk());
  ASSERT_THAT(event, IsOk());
  auto hold = machine.Hold(stream->get(), absl::Minutes(10));
  ASSERT_THAT(hold, IsOk());
  ASSERT_THAT(runtime_.RecordEvent(event->get(), stream->get()), IsOk());
  EXPECT_FALSE(runtime_.IsDone(event->get()).value_or(true));
  EXPECT_TRUE((*hold)->Release());
  EXPECT_THAT(machine.WaitFor(stream->get()), IsOk());
  EXPECT_TRUE(runtime_.IsDone(event->get()).value_or(false));
}

TEST_F(BlockingMachineTest, AHeldStreamGoesOnAfterTheLimit) {
  BlockingMachine machine(runtime_, environment_.get(), {});
  const auto stream = NewStream(runtime_, 0);
  ASSERT_THAT(stream, IsOk());
  auto hold = machine.Hold(stream->get(), absl::Milliseconds(1));
  ASSERT_THAT(hold, IsOk());
  EXPECT_THAT(machine.WaitFor(stream->get()), IsOk());
  EXPECT_FALSE((*hold)->Release());
}

TEST_F(BlockingMachineTest, ReturnsTheFirstError) {
  BlockingMachine machine(runtime_, environment_.get(), {});
  PendingCalls calls;
  calls.Add("one")(absl::OkStatus());
  calls.Add("two")(absl::InternalError("no luck"));
  calls.Add("three")(absl::AbortedError("too late"));
  EXPECT_THAT(machine.Wait(calls),
              StatusIs(absl::StatusCode::kInternal, "two: no luck"));
}

TEST_F(BlockingMachineTest, NoticesAGpuThatFails) {
  // Its streams run only when told to.
  SimulatedEnvironment simulated(1);
  FakeGpuRuntime runtime({.environment = simulated.get()});
  BlockingMachine machine(
      runtime, environment_.get(),
      {.limit = absl::Seconds(20), .look_every = absl::Milliseconds(1)});
  const auto stream = NewStream(runtime, 0);
  ASSERT_THAT(stream, IsOk());
  runtime.FailStream(stream->get(), absl::InternalError("it burns"));
  PendingCalls calls;
  ASSERT_THAT(runtime.CallHost(calls.Add("it"), stream->get()), IsOk());
  simulated.RunAll();
  ASSERT_FALSE(calls.have_ended());
  EXPECT_THAT(machine.Wait(calls),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("it burns")));
}

TEST_F(BlockingMachineTest, GivesUpWithTheNamesOfWhatHasNotEnded) {
  std::vector<absl::Status> given_up;
  BlockingMachine machine(runtime_, environment_.get(),
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
  EXPECT_THAT(machine.Wait(calls), is_late);
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

TEST(HostAreaTest, PiecesAreApartUntilAllAreGivenBack) {
  SimulatedEnvironment environment(1);
  FakeGpuRuntime runtime({.environment = environment.get()});
  HostArea area(runtime, /*block_bytes=*/100);
  uint8_t* const first = *area.Take(60);
  EXPECT_EQ(*area.Take(40), first + 60);
  uint8_t* const large = *area.Take(1000);
  EXPECT_THAT(runtime.Leaks(), SizeIs(2));
  area.Clear();
  EXPECT_EQ(*area.Take(70), first);
  EXPECT_EQ(*area.Take(70), large);
  EXPECT_THAT(runtime.Leaks(), SizeIs(2));
}

}  // namespace
}  // namespace tutti
