// The benchmarks of the suite and what it reports, on the double of the GPU
// runtime with times that the test makes up.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/gpu/bench_case.h"
#include "bench/gpu/bench_list.h"
#include "bench/gpu/check_list.h"
#include "bench/gpu/fake_timing.h"
#include "bench/gpu/nccl_bench.h"
#include "bench/gpu/simulated_machine.h"
#include "bench/gpu/suite_report.h"
#include "gmock/gmock.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_network.h"
#include "gpu/testing/fake_nccl_runtime.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Each launch takes the host 1 us.
class BenchRuntime : public FakeGpuRuntime {
 public:
  BenchRuntime(SimulatedEnvironment& environment, Options options)
      : FakeGpuRuntime(std::move(options)), environment_(environment) {}

  absl::Status LaunchReduce(const GpuReduction& reduction,
                            GpuStream stream) override {
    environment_.Advance(absl::Microseconds(1));
    return FakeGpuRuntime::LaunchReduce(reduction, stream);
  }
  absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) override {
    environment_.Advance(absl::Microseconds(1));
    return FakeGpuRuntime::LaunchCopy(copy, stream);
  }

 private:
  SimulatedEnvironment& environment_;
};

class SuiteBenchTest : public ::testing::Test {
 protected:
  ~SuiteBenchTest() override { environment_.RunAll(); }

  // All benchmarks, or those that `filter` says; the report's text.
  std::string Run(const std::string& filter, std::vector<double> seconds) {
    FakeTiming timing(runtime_, {.seconds = std::move(seconds),
                                 .has_empty_graphs = has_empty_graphs_,
                                 .on_start = on_start_});
    SimulatedMachine machine(runtime_, environment_);
    const BenchMachine bench = {.machine = machine,
                                .timing = timing,
                                .scale = {.sizes = {64},
                                          .nccl_sizes = {4, 64},
                                          .rounds = 3,
                                          .replays = 5,
                                          .hold_bytes = 64,
                                          .turn_bytes = 512}};
    RunBenches(AllBenches(*runtime_.NumGpus(), nccl_, bench.scale), filter,
               bench, report_);
    report_.SayEnd();
    return std::move(text_).str();
  }

  SimulatedEnvironment environment_{1};
  BenchRuntime runtime_{environment_,
                        {.num_gpus = 2,
                         .memory_bytes = int64_t{1} << 22,
                         .environment = environment_.get()}};
  const std::shared_ptr<FakeNcclNetwork> network_ =
      std::make_shared<FakeNcclNetwork>();
  const std::shared_ptr<FakeNcclRuntime> fake_nccl_ =
      std::make_shared<FakeNcclRuntime>(network_, &runtime_);
  absl::StatusOr<std::shared_ptr<NcclRuntime>> nccl_ = fake_nccl_;
  std::function<void()> on_start_;
  bool has_empty_graphs_ = false;
  std::ostringstream text_;
  SuiteReport report_{text_};
};

TEST_F(SuiteBenchTest, AllRunAndLeaveNothing) {
  const std::string text = Run("", {1e-6});
  EXPECT_THAT(text, HasSubstr("\n16 passed, 0 failed, 0 left out\n"));
  EXPECT_THAT(text, HasSubstr("NcclReduce, 2 x 64 B float32\n"));
  EXPECT_THAT(text, HasSubstr("GpuLocalReduce, 8 x 64 B bfloat16\n"));
  environment_.RunAll();
  EXPECT_THAT(runtime_.Mistakes(), IsEmpty());
  EXPECT_THAT(runtime_.Leaks(), IsEmpty());
  EXPECT_THAT(network_->Mistakes(), IsEmpty());
  EXPECT_EQ(network_->counts().living, 0);
}

TEST_F(SuiteBenchTest, TheFasterCopyIsTheYardstick) {
  // Of the reduction, its kernel and two copies; the first round does not
  // count.
  const std::string text = Run("GpuLocalReduce, 2 x 64 B float32",
                               {9, 9, 9, 9, 2, 2, 1.6, 1.8, 2, 2, 1.8, 1.6});
  EXPECT_THAT(text, HasSubstr("MISSED: 80 % of the speed of a copy; aim: at "
                              "least 85 %"));
  EXPECT_FALSE(report_.has_failures());
  const auto json = nlohmann::json::parse(report_.ToJson());
  EXPECT_EQ(json["benchmarks"][0]["aim"]["met"], false);
  EXPECT_EQ(json["benchmarks"][0]["seconds"]["GpuLocalReduce"].size(), 2u);
}

TEST_F(SuiteBenchTest, ATableHasAllTimes) {
  // Two calls a turn, which move 512 bytes in all.
  EXPECT_THAT(Run("GpuLocalReduce, 2 x 64 B float32", {8e-6}),
              testing::ContainsRegex(
                  "benchmark +what +p50 \\[us\\] +GB/s +found +aim\n"
                  "GpuLocalReduce, 2 x 64 B float32 +GpuLocalReduce +2.0 +0 "
                  "+100 % +met\n +kernel +2.0 +0\n"));
}

TEST_F(SuiteBenchTest, ARingMovesItsOwnBytes) {
  // 5 buffers among 2 members, of which a copy moves 4.
  EXPECT_THAT(Run("RingReduce, 2", {9, 9, 9, 3, 2, 4, 3, 4, 2}),
              HasSubstr("met:    1.2 times the time of copying what it reads "
                        "and writes; aim: at most 1.5"));
}

// Of each step: that the host put it on its stream before any ran, and when it
// ran.
TEST_F(SuiteBenchTest, ARingHasATraceOfItsSteps) {
  const std::string text = Run("RingReduce, 4", {1e-6});
  EXPECT_THAT(text, testing::ContainsRegex(
                        "host puts 24 steps +24.0 +0 ran before +met\n"));
  const auto json = nlohmann::json::parse(report_.ToJson());
  const auto& trace = json["benchmarks"][0]["trace"];
  ASSERT_EQ(trace.size(), 24u);
  std::map<int, int> num_steps;
  std::map<int, double> last_end;
  for (const auto& step : trace) {
    EXPECT_EQ(step["step"], num_steps[step["rank"]]++);
    EXPECT_NEAR(step["returned"].get<double>() - step["called"].get<double>(),
                1e-6, 1e-9);
    EXPECT_LE(step["returned"], 0);
    EXPECT_GT(step["began"], last_end[step["rank"]]);
    EXPECT_GT(step["ended"], step["began"]);
    last_end[step["rank"]] = step["ended"];
  }
  EXPECT_THAT(num_steps, testing::SizeIs(4));
}

TEST_F(SuiteBenchTest, ARingThatCannotBeTracedFails) {
  runtime_.FailCall(GpuCall::kLaunchReduce, 0, absl::InternalError("no luck"));
  EXPECT_THAT(Run("RingReduce, 2", {1}), HasSubstr("FAILED    RingReduce, 2"));
  environment_.RunAll();
  EXPECT_THAT(runtime_.Leaks(), IsEmpty());
}

TEST_F(SuiteBenchTest, NcclTakesTurnsWithNcclAlone) {
  // Five calls a turn: 8, 5 and 6 us each, then 7, 7 and 6; the first round
  // does not count.
  const std::string text =
      Run("NcclReduce, 2 x 64 B",
          {9, 9, 9, 40e-6, 25e-6, 30e-6, 35e-6, 35e-6, 30e-6});
  EXPECT_THAT(text, HasSubstr("met:    2 us more than ncclAllReduce alone; "
                              "aim: at most 3 us"));
  EXPECT_THAT(
      text, testing::ContainsRegex("NcclReduce +7.5 .*\n +ncclAllReduce +6.*\n"
                                   " +not blocking +6"));
  // All in each round: one call that is not timed, and five. An end of each
  // communicator on both GPUs.
  EXPECT_EQ(network_->counts().launches, 3 * 3 * (1 + 5));
  EXPECT_EQ(network_->counts().inits, 3 * 2);
}

TEST_F(SuiteBenchTest, WhereAllCommunicatorsBlockNoOtherOneIsCompared) {
  fake_nccl_->Block("it is old");
  const std::string text =
      Run("NcclReduce, 2 x 64 B", {9, 9, 40e-6, 25e-6, 35e-6, 35e-6});
  EXPECT_THAT(text, HasSubstr("ncclAllReduce"));
  EXPECT_THAT(text, Not(HasSubstr("not blocking")));
  EXPECT_EQ(network_->counts().inits, 2 * 2);
}

TEST_F(SuiteBenchTest, AnNcclThatFailsIsAborted) {
  network_->FailNextLaunch(absl::InternalError("no luck"));
  EXPECT_THAT(Run("NcclReduce, 1 x 4 B", {1e-6}), HasSubstr("no luck"));
  environment_.RunAll();
  EXPECT_EQ(network_->counts().living, 0);
  EXPECT_TRUE(report_.has_failures());
}

TEST_F(SuiteBenchTest, WhyThereIsNoNcclIsSaid) {
  nccl_ = absl::UnavailableError("libnccl.so.2: no such file");
  EXPECT_THAT(Run("Nccl", {1e-6}),
              HasSubstr("LEFT OUT: NcclReduce: libnccl.so.2: no such file\n"
                        "0 passed, 0 failed, 1 left out"));
}

TEST(AimOverRawTest, LargeBuffersAreAimedAtByShare) {
  const std::vector<Contender> contenders = {{.seconds = {53e-6, 52e-6, 1}},
                                             {.seconds = {50e-6, 60e-6, 3}},
                                             {.seconds = {51e-6, 50e-6, 2}}};
  const Aim large = AimOverRaw(int64_t{16} << 20, contenders);
  EXPECT_EQ(large.ToString(),
            "4 % more than ncclAllReduce alone; aim: at most 2 %");
  const Aim small = AimOverRaw((int64_t{16} << 20) - 4, contenders);
  EXPECT_EQ(small.ToString(),
            "2 us more than ncclAllReduce alone; aim: at most 3 us");
}

TEST_F(SuiteBenchTest, AGraphIsTimedByReplay) {
  // Five replays a turn, of which a turn takes 25 us.
  EXPECT_THAT(Run("graph of a reduction, 4", {25e-6}),
              HasSubstr("met:    5 us for each replay; aim: at most 6 us"));
}

TEST_F(SuiteBenchTest, AGraphThatDoesNotReduceFails) {
  has_empty_graphs_ = true;
  EXPECT_THAT(Run("graph of a reduction", {25e-6}),
              testing::AllOf(HasSubstr("FAILED    CUDA graph of a reduction, 2 "
                                       "x 4 KiB float32: INTERNAL: buffer 2 "
                                       "after a replay: byte 0 of 4096"),
                             HasSubstr("0 passed, 3 failed")));
  environment_.RunAll();
  EXPECT_THAT(runtime_.Mistakes(), IsEmpty());
  EXPECT_THAT(runtime_.Leaks(), IsEmpty());
}

// Or the time between two would be that of the host.
TEST_F(SuiteBenchTest, ATurnOfSmallWorkBeginsBehindCopies) {
  std::vector<int64_t> copies;
  on_start_ = [&] { copies.push_back(runtime_.NumCalls(GpuCall::kCopyAsync)); };
  Run("graph of a reduction, 2", {25e-6});
  // Two bring inputs and results of the replay that is checked first.
  EXPECT_THAT(copies, ElementsAre(18, 34, 50, 66, 82, 98));
  environment_.RunAll();
  EXPECT_THAT(runtime_.Mistakes(), IsEmpty());
}

TEST_F(SuiteBenchTest, WhatNeedsMoreMemoryThanThereIsIsLeftOut) {
  runtime_.FailCall(GpuCall::kAllocateAsync, 1,
                    absl::ResourceExhaustedError("too little"));
  EXPECT_THAT(Run("GpuLocalReduce, 2 x 64 B float32", {1}),
              testing::AllOf(HasSubstr("LEFT OUT: GpuLocalReduce, 2 x 64 B"),
                             HasSubstr("0 passed, 0 failed, 1 left out")));
}

TEST_F(SuiteBenchTest, WhatFailsIsNamed) {
  runtime_.FailCall(GpuCall::kLaunchReduce, 3, absl::InternalError("no luck"));
  EXPECT_THAT(Run("GpuLocalReduce, 2 x 64 B float32", {1}),
              testing::AllOf(HasSubstr("FAILED    GpuLocalReduce, 2 x 64 B "
                                       "float32: INTERNAL: "),
                             HasSubstr("no luck")));
  EXPECT_TRUE(report_.has_failures());
}

TEST(SuiteReportTest, ChecksAreToldAndCounted) {
  std::ostringstream text;
  SuiteReport report(text);
  SimulatedEnvironment environment(1);
  FakeGpuRuntime runtime({.environment = environment.get()});
  SimulatedMachine machine(runtime, environment);
  const CheckList list = {
      .checks =
          {{.name = "a good one",
            .run = [](SuiteMachine&) { return absl::OkStatus(); }},
           {.name = "a bad one",
            .run = [](SuiteMachine&) { return absl::InternalError("so bad"); }},
           {.name = "another",
            .run = [](SuiteMachine&) { return absl::OkStatus(); }}},
      .left_out = {"a third: no GPU"}};
  ASSERT_THAT(report.SayGpus(runtime), IsOk());
  report.SayNccl(std::make_shared<FakeNcclRuntime>(
      std::make_shared<FakeNcclNetwork>(), &runtime));
  RunChecks(list, "one", machine, report);
  report.SayEnd();
  EXPECT_THAT(text.str(),
              testing::AllOf(HasSubstr("GPU 0: "),
                             HasSubstr("NCCL 2.28.9\n"
                                       "LEFT OUT: a third: no GPU\n"
                                       "passed    a good one\n"
                                       "FAILED    a bad one: INTERNAL: so bad\n"
                                       "1 passed, 1 failed, 1 left out\n"),
                             Not(HasSubstr("another"))));
  EXPECT_TRUE(report.has_failures());
  const auto json = nlohmann::json::parse(report.ToJson());
  EXPECT_EQ(json["checks"][1]["message"], "INTERNAL: so bad");
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["nccl"], "2.28.9");
  EXPECT_THAT(json["left_out"], ElementsAre("a third: no GPU"));
}

TEST(AimTest, BoundsAreInclusive) {
  EXPECT_TRUE(
      (Aim{.found = 6, .wanted = 6, .bound = Aim::Bound::kAtMost}).is_met());
  EXPECT_FALSE(
      (Aim{.found = 6.1, .wanted = 6, .bound = Aim::Bound::kAtMost}).is_met());
  EXPECT_FALSE(
      (Aim{.found = 84, .wanted = 85, .bound = Aim::Bound::kAtLeast}).is_met());
}

}  // namespace
}  // namespace tutti
