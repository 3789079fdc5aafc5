#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "bench/gpu/bench_turns.h"
#include "bench/gpu/fake_machine.h"
#include "bench/gpu/pending_calls.h"
#include "bench/gpu/waiter.h"
#include "benchmark/benchmark.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace gpu_bench_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// The benchmarks on doubles of GPUs and of NCCL, with times that the test makes
// up.

using BenchRun = benchmark::BenchmarkReporter::Run;

class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& /*context*/) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    all_.insert(all_.end(), runs.begin(), runs.end());
  }
  const std::vector<Run>& all() const { return all_; }

 private:
  std::vector<Run> all_;
};

class GpuBenchTest : public ::testing::Test {
 protected:
  ~GpuBenchTest() override { benchmark::ClearRegisteredBenchmarks(); }

  // Makes the machine, and registers all benchmarks.
  FakeMachine& Make(FakeMachine::Options options) {
    options.num_gpus = 2;
    fake_ = std::make_unique<FakeMachine>(options);
    bench_ = std::make_unique<BenchMachine>(
        BenchMachine{.machine = fake_->machine,
                     .scale = {.sizes = {64},
                               .nccl_sizes = {4, 64},
                               .rounds = 2,
                               .replays = 5,
                               .hold_bytes = 64,
                               .turn_bytes = 512}});
    RegisterLocalBenches(*bench_);
    RegisterRingBenches(*bench_);
    RegisterNcclBenches(*bench_);
    return *fake_;
  }

  static std::vector<BenchRun> RunAll(const std::string& filter = "all") {
    Collector collector;
    benchmark::RunSpecifiedBenchmarks(&collector, filter);
    return collector.all();
  }

  // The benchmark that matches the filter.
  static BenchRun RunOne(const std::string& filter) {
    const std::vector<BenchRun> runs = RunAll(filter);
    EXPECT_THAT(runs, SizeIs(1)) << filter;
    return runs.at(0);
  }

 private:
  std::unique_ptr<FakeMachine> fake_;
  std::unique_ptr<BenchMachine> bench_;
};

double CounterOf(const BenchRun& run, const std::string& name) {
  const auto counter = run.counters.find(name);
  return counter == run.counters.end() ? -1 : counter->second.value;
}

TEST_F(GpuBenchTest, AllRunAndLeaveNothing) {
  FakeMachine& fake = Make({});
  const std::vector<BenchRun> runs = RunAll();
  EXPECT_THAT(runs, SizeIs(6 + 3 + 3 + 4));
  for (const BenchRun& run : runs) {
    EXPECT_EQ(run.error_message, "") << run.benchmark_name();
  }
  EXPECT_THAT(fake.Complaints(), IsEmpty());
}

TEST_F(GpuBenchTest, TheFasterCopyIsTheYardstick) {
  // A reduction, its kernel and two copies; the first round does not count.
  Make({.seconds = {9, 9, 9, 9, 4, 4, 3.2, 3.6, 4, 4, 3.6, 3.2}});
  const BenchRun run = RunOne("GpuLocalReduce/float32/members:2");
  EXPECT_THAT(CounterOf(run, "of_copy_percent"), DoubleNear(80, 1e-9));
  EXPECT_EQ(run.report_label, "MISSED: of_copy_percent at least 85");
  // Four calls in a turn, which move 256 bytes each.
  EXPECT_THAT(CounterOf(run, "kernel_us"), DoubleNear(1e6, 1e-3));
  EXPECT_THAT(CounterOf(run, "bytes_per_second"), DoubleNear(256, 1e-9));
}

TEST_F(GpuBenchTest, ARingMovesItsOwnBytes) {
  // 5 buffers among 2 members, of which a copy moves 4.
  Make({.seconds = {9, 9, 9, 3, 2, 4, 3, 4, 2}});
  const BenchRun run = RunOne("RingReduce/float32/members:2");
  EXPECT_THAT(CounterOf(run, "times_copy"), DoubleNear(1.2, 1e-9));
  EXPECT_EQ(run.report_label, "met: times_copy at most 1.5");
  EXPECT_EQ(CounterOf(run, "launches_before_any_ran"), 4);
}

TEST_F(GpuBenchTest, ARingThatCannotBeTracedFails) {
  Make({}).runtime.FailCall(GpuCall::kLaunchReduce, 0,
                            absl::InternalError("no luck"));
  EXPECT_THAT(RunOne("RingReduce/float32/members:2").error_message,
              HasSubstr("no luck"));
}

TEST_F(GpuBenchTest, NcclTakesTurnsWithNcclAlone) {
  // Five calls in a turn: 8, 5 and 6 us each, then 7, 7 and 6.
  const FakeMachine& fake =
      Make({.seconds = {9, 9, 9, 40e-6, 25e-6, 30e-6, 35e-6, 35e-6, 30e-6}});
  const BenchRun run = RunOne("NcclReduce/float32/members:2/bytes:64");
  EXPECT_THAT(CounterOf(run, "more_us"), DoubleNear(2, 1e-9));
  EXPECT_THAT(CounterOf(run, "NcclReduce_us"), DoubleNear(7.5, 1e-9));
  EXPECT_THAT(CounterOf(run, "ncclAllReduce_not_blocking_us"),
              DoubleNear(6, 1e-9));
  // Each communicator makes one untimed call and five timed ones per round.
  EXPECT_EQ(fake.network->counts().launches, 3 * 3 * (1 + 5));
  EXPECT_EQ(fake.network->counts().inits, 3 * 2);
}

TEST_F(GpuBenchTest, WhereAllCommunicatorsBlockNoOtherOneIsCompared) {
  const FakeMachine& fake = Make({.why_nccl_blocks = "it is old"});
  const BenchRun run = RunOne("NcclReduce/float32/members:2/bytes:64");
  EXPECT_GT(CounterOf(run, "ncclAllReduce_us"), 0);
  EXPECT_EQ(CounterOf(run, "ncclAllReduce_not_blocking_us"), -1);
  EXPECT_EQ(fake.network->counts().inits, 2 * 2);
}

TEST_F(GpuBenchTest, AnNcclThatFailsIsAborted) {
  FakeMachine& fake = Make({});
  fake.network->FailNextLaunch(absl::InternalError("no luck"));
  EXPECT_THAT(RunOne("NcclReduce/float32/members:1/bytes:4").error_message,
              HasSubstr("no luck"));
  fake.environment.RunAll();
  EXPECT_EQ(fake.network->counts().living, 0);
}

TEST_F(GpuBenchTest, AMissingNcclIsLeftOut) {
  Make({.nccl = absl::UnavailableError("libnccl.so.2: no such file")});
  EXPECT_EQ(RunOne("Nccl").error_message,
            "LEFT OUT: libnccl.so.2: no such file");
  EXPECT_EQ(RunBenches(), 0);
}

TEST_F(GpuBenchTest, AGraphIsTimedByReplay) {
  // Five replays in a turn.
  Make({.seconds = {25e-6}});
  const BenchRun run = RunOne("CudaGraph.*members:4");
  EXPECT_THAT(CounterOf(run, "replay_us"), DoubleNear(5, 1e-9));
  EXPECT_EQ(run.report_label, "met: replay_us at most 6");
}

TEST_F(GpuBenchTest, AGraphThatDoesNotReduceFails) {
  FakeMachine& fake = Make({.fault = "graph"});
  EXPECT_THAT(RunOne("CudaGraph.*members:2").error_message,
              HasSubstr("output 0: byte 0 of 4096"));
  EXPECT_THAT(fake.Complaints(), IsEmpty());
}

// Otherwise the time between two would be that of the host.
TEST_F(GpuBenchTest, ATurnOfSmallWorkBeginsBehindCopies) {
  std::vector<int64_t> copies;
  FakeMachine* fake = nullptr;
  fake = &Make({.on_start = [&] {
    copies.push_back(fake->runtime.NumCalls(GpuCall::kCopyAsync));
  }});
  RunOne("CudaGraph.*members:2");
  // Three bring inputs and results of the replay that is checked first.
  EXPECT_THAT(copies, ElementsAre(19, 35, 51, 67, 83, 99));
}

TEST_F(GpuBenchTest, ABenchmarkThatNeedsMoreMemoryIsLeftOut) {
  Make({}).runtime.FailCall(GpuCall::kAllocateAsync, 1,
                            absl::ResourceExhaustedError("too little"));
  EXPECT_THAT(RunOne("GpuLocalReduce/float32/members:2").error_message,
              StartsWith("LEFT OUT: RESOURCE_EXHAUSTED: "));
}

TEST_F(GpuBenchTest, AFailureIsCounted) {
  Make({.fault = "graph"});
  EXPECT_EQ(RunBenches(), 3);
}

class BlockingWaiterTest : public ::testing::Test {
 protected:
  const DefaultEnvironment environment_{/*num_workers=*/2};
  FakeGpuRuntime runtime_{{.environment = environment_.get()}};
  const OwnedGpuStream stream_ = NewStream(runtime_, 0).value();
  BlockingWaiter waiter_{runtime_, *environment_.get().clock, {}};
};

TEST_F(BlockingWaiterTest, WaitsForAStream) {
  EXPECT_THAT(waiter_.WaitFor(stream_.get()), IsOk());
}

TEST_F(BlockingWaiterTest, AHeldStreamGoesOnWhenTheHoldEnds) {
  const auto event = NewEvent(runtime_, 0);
  ASSERT_THAT(event, IsOk());
  auto hold = waiter_.Hold(stream_.get(), absl::Minutes(10));
  ASSERT_THAT(hold, IsOk());
  ASSERT_THAT(runtime_.RecordEvent(event->get(), stream_.get()), IsOk());
  EXPECT_FALSE(runtime_.IsDone(event->get()).value_or(true));
  EXPECT_TRUE((*hold)->Release());
  EXPECT_THAT(waiter_.WaitFor(stream_.get()), IsOk());
  EXPECT_TRUE(runtime_.IsDone(event->get()).value_or(false));
}

TEST_F(BlockingWaiterTest, AHeldStreamGoesOnAfterTheLimit) {
  auto hold = waiter_.Hold(stream_.get(), absl::Milliseconds(1));
  ASSERT_THAT(hold, IsOk());
  EXPECT_THAT(waiter_.WaitFor(stream_.get()), IsOk());
  EXPECT_FALSE((*hold)->Release());
}

TEST_F(BlockingWaiterTest, ReturnsTheFirstError) {
  PendingCalls calls;
  calls.Add("one")(absl::OkStatus());
  calls.Add("two")(absl::InternalError("no luck"));
  calls.Add("three")(absl::AbortedError("too late"));
  EXPECT_THAT(waiter_.Wait(calls),
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

}  // namespace gpu_bench_test
}  // namespace tutti
