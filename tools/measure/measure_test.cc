#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/doubles/status_matchers.h"
#include "tools/base/exits_with_testing.h"
#include "tools/base/named_only_testing.h"
#include "tools/cluster/party.h"
#include "tools/measure/copy_bandwidth.h"
#include "tools/measure/parallel_for.h"
#include "tools/measure/perf_buffers.h"
#include "tools/measure/perf_plan.h"
#include "tools/measure/perf_runner.h"
#include "tools/measure/store_calibration.h"
#include "tools/measure/stream_copy.h"
#include "tools/measure/tune_plan.h"
#include "tutti/environment.h"

namespace tutti {
namespace measure_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A clock that advances at each call of Now(), by each of `ticks` in turn.
class TickingClock : public Clock {
 public:
  explicit TickingClock(std::vector<absl::Duration> ticks)
      : ticks_(std::move(ticks)) {}
  absl::Time Now() override {
    now_ += ticks_[num_looks_++ % ticks_.size()];
    return now_;
  }
  AlarmId CallAt(absl::Time, Work) override { return 0; }
  bool Cancel(AlarmId) override { return false; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  const std::vector<absl::Duration> ticks_;
  size_t num_looks_ = 0;
  absl::Time now_ = absl::UnixEpoch();
};

TEST(CopyBandwidthTest, CountsWhatIsReadAndWhatIsWrittenByTheFastestCopy) {
  const DefaultEnvironment system(2);
  // Alternates the time between copies with the times of copies: 4, 2, 3 ms,
  // and so on.
  const absl::Duration between = absl::Milliseconds(1);
  TickingClock clock({between, absl::Milliseconds(4), between,
                      absl::Milliseconds(2), between, absl::Milliseconds(3)});
  Environment environment = system.get();
  environment.clock = &clock;
  auto bandwidth = CopyBandwidth::Create(environment, /*num_workers=*/3);
  ASSERT_THAT(bandwidth, IsOk());
  EXPECT_EQ(bandwidth->best(), 0);
  bandwidth->Measure(1);
  EXPECT_DOUBLE_EQ(bandwidth->best(), 2.0 * CopyBandwidth::kBufferBytes / 4e-3);
  bandwidth->Measure(2);
  EXPECT_DOUBLE_EQ(bandwidth->best(), 2.0 * CopyBandwidth::kBufferBytes / 2e-3);
}

TEST(ParallelForTest, RunsEachIndexOnceBeforeItReturns) {
  const DefaultEnvironment environment(3);
  for (int count : {0, 1, 100}) {
    std::vector<std::atomic<int>> runs(count);
    ParallelFor(environment.get().queue, count, [&](int i) { ++runs[i]; });
    for (const std::atomic<int>& times : runs) EXPECT_EQ(times, 1);
  }
}

Workload WorkloadOf(CollectiveType type, int group_size, int64_t count) {
  Workload workload = {
      .spec = *ParseCollectiveSpec({.collective = std::string(Name(type))}),
      .dtype = DType::kFloat32,
      .group_size = group_size,
      .count = count};
  for (int rank = 0; rank < group_size; ++rank) {
    workload.spec.permutation.push_back((rank + 1) % group_size);
  }
  return workload;
}

// Writes the correct result into every rank's output.
void GatherInto(std::vector<RankBuffers>* ranks) {
  std::vector<std::byte> all;
  for (const RankBuffers& rank : *ranks) {
    all.insert(all.end(), rank.input.data(),
               rank.input.data() + rank.input.size_bytes());
  }
  for (RankBuffers& rank : *ranks) {
    std::memcpy(rank.output.mutable_data(), all.data(), all.size());
  }
}

class PerfBuffersTest : public ::testing::Test {
 protected:
  std::unique_ptr<PerfBuffers> Create(const Workload& workload,
                                      const BufferOptions& options) {
    auto buffers = PerfBuffers::Create(workload, {0, workload.group_size},
                                       options, environment_.get().queue);
    EXPECT_THAT(buffers, IsOk());
    return *std::move(buffers);
  }

  DefaultEnvironment environment_{2};
};

TEST_F(PerfBuffersTest, TensorsHaveTheSizesOfTheWorkload) {
  for (CollectiveType type : kAllCollectiveTypes) {
    const Workload workload =
        WorkloadOf(type, 3, type == CollectiveType::kBarrier ? 0 : 12);
    for (bool in_place : {false, true}) {
      const auto ranks =
          AllocateBuffers(workload, {0, workload.group_size}, in_place);
      ASSERT_THAT(ranks, IsOk());
      for (int rank = 0; rank < 3; ++rank) {
        const auto& [input, output] = (*ranks)[rank];
        EXPECT_EQ(input.is_set() ? input.num_elements() : 0,
                  InputElements(workload, rank));
        EXPECT_EQ(output.is_set() ? output.num_elements() : 0,
                  OutputElements(workload, rank));
      }
    }
  }
}

TEST_F(PerfBuffersTest, InPlaceTheSmallerTensorIsTheRanksBlock) {
  const auto reduced = AllocateBuffers(
      WorkloadOf(CollectiveType::kAllReduce, 3, 12), {0, 3}, true);
  EXPECT_EQ((*reduced)[2].input.data(), (*reduced)[2].output.data());
  const auto gathered = AllocateBuffers(
      WorkloadOf(CollectiveType::kAllGather, 3, 12), {0, 3}, true);
  EXPECT_EQ((*gathered)[2].input.data(),
            (*gathered)[2].output.data() + 2 * 4 * sizeof(float));
  const auto scattered = AllocateBuffers(
      WorkloadOf(CollectiveType::kReduceScatter, 3, 12), {0, 3}, true);
  EXPECT_EQ((*scattered)[2].output.data(),
            (*scattered)[2].input.data() + 2 * 4 * sizeof(float));
}

TEST_F(PerfBuffersTest, OutputsAreWrongUntilTheyAreWritten) {
  for (bool in_place : {false, true}) {
    const auto buffers =
        Create(WorkloadOf(CollectiveType::kAllGather, 3, 300000),
               {.in_place = in_place, .check = true});
    for (int iteration = 0; iteration < 6; ++iteration) {
      auto& ranks = buffers->Next();
      // In place, each rank has its own block already.
      EXPECT_EQ(buffers->CountWrong(), in_place ? 600000 : 900000);
      GatherInto(&ranks);
      EXPECT_EQ(buffers->CountWrong(), 0);
      ranks[1].output.mutable_data()[0] ^= std::byte{1};
      EXPECT_EQ(buffers->CountWrong(), 1);
    }
  }
}

TEST_F(PerfBuffersTest, SetsTakeTurnsWithDataOfTheirOwn) {
  const auto buffers =
      Create(WorkloadOf(CollectiveType::kAllGather, 2, 10), {});
  const auto first = buffers->Next();
  const auto second = buffers->Next();
  EXPECT_NE(first[0].input.data(), second[0].input.data());
  EXPECT_NE(std::memcmp(first[0].input.data(), second[0].input.data(), 20), 0);
}

TEST_F(PerfBuffersTest, HotMeansOneSetWrittenOnce) {
  const auto buffers =
      Create(WorkloadOf(CollectiveType::kAllGather, 2, 10), {.hot = true});
  std::byte* const data = buffers->Next()[0].input.mutable_data();
  data[0] ^= std::byte{1};
  const std::byte changed = data[0];
  EXPECT_EQ(buffers->Next()[0].input.data(), data);
  EXPECT_EQ(data[0], changed);
}

TEST_F(PerfBuffersTest, HotAndCheckedIsRewritten) {
  const auto buffers = Create(WorkloadOf(CollectiveType::kAllGather, 2, 10),
                              {.hot = true, .check = true});
  GatherInto(&buffers->Next());
  EXPECT_EQ(buffers->CountWrong(), 0);
  buffers->Next();
  EXPECT_EQ(buffers->CountWrong(), 20);
}

TEST_F(PerfBuffersTest, MoreThanTheMachineHasIsRefused) {
  EXPECT_THAT(PerfBuffers::Create(
                  WorkloadOf(CollectiveType::kAllReduce, 2, int64_t{1} << 50),
                  {0, 2}, {}, environment_.get().queue),
              IsResourceExhausted());
}

TEST_F(PerfBuffersTest, TheRefusalSaysHowMuchWhatWouldTake) {
  EXPECT_THAT(PerfBuffers::CheckMemory(
                  WorkloadOf(CollectiveType::kAllReduce, 2, int64_t{1} << 48),
                  {0, 2}, {}),
              IsResourceExhausted("buffers for all_reduce of 1048576G bytes on "
                                  "2 ranks take 4194304G bytes"));
  EXPECT_THAT(PerfBuffers::CheckMemory(
                  WorkloadOf(CollectiveType::kAllReduce, 2, int64_t{1} << 48),
                  {1, 1}, {}),
              IsResourceExhausted("on 1 rank takes "));
}

TEST_F(PerfBuffersTest, ABarrierHasNoBuffers) {
  const auto buffers =
      Create(WorkloadOf(CollectiveType::kBarrier, 3, 0), {.check = true});
  for (const RankBuffers& rank : buffers->Next()) {
    EXPECT_FALSE(rank.input.is_set());
    EXPECT_FALSE(rank.output.is_set());
  }
  EXPECT_EQ(buffers->CountWrong(), 0);
}

PerfOptions OptionsFor(const std::string& collective) {
  PerfOptions options;
  options.collective.collective = collective;
  return options;
}

class PerfPlanTest : public ::testing::Test {
 protected:
  PerfPlanTest() {
    for (const char* name : {"Rings", "Trees"}) {
      EXPECT_THAT(registry_.Register(
                      name, std::make_shared<NamedOnly>(ImplementationTraits{
                                .collectives = {CollectiveType::kAllReduce}})),
                  IsOk());
    }
  }

  PerfPlan Plan(const PerfOptions& options) {
    const auto plan = PlanPerf(options, registry_);
    EXPECT_THAT(plan, IsOk());
    return plan.ok() ? *plan : PerfPlan();
  }

  // Expects a UsageError with the text.
  void ExpectRefused(const PerfOptions& options, const std::string& text) {
    EXPECT_THAT(PlanPerf(options, registry_), ExitsWith(2, HasSubstr(text)));
  }

  static std::vector<int64_t> Counts(const PerfPlan& plan) {
    std::vector<int64_t> counts;
    for (const Workload& workload : plan.workloads) {
      counts.push_back(workload.count);
    }
    return counts;
  }

  CollectiveRegistry registry_;
};

TEST_F(PerfPlanTest, SweepsTheSizes) {
  PerfOptions options = OptionsFor("all_reduce");
  options.sweep.max_bytes = "1K";
  EXPECT_THAT(Counts(Plan(options)), ElementsAre(1, 4, 16, 64, 256));
}

TEST_F(PerfPlanTest, OneSizeMayBeMeasuredAlone) {
  PerfOptions options = OptionsFor("all_reduce");
  options.sweep.bytes = "1M";
  EXPECT_THAT(Counts(Plan(options)), ElementsAre(262144));
}

TEST_F(PerfPlanTest, SizesThatComeToTheSameAreMeasuredOnce) {
  PerfOptions options = OptionsFor("all_gather");
  options.sweep.max_bytes = "256";
  EXPECT_THAT(Counts(Plan(options)), ElementsAre(8, 16, 64));
}

TEST_F(PerfPlanTest, ABarrierIsMeasuredOnce) {
  EXPECT_THAT(Counts(Plan(OptionsFor("barrier"))), ElementsAre(0));
}

TEST_F(PerfPlanTest, TheLibraryChoosesByDefault) {
  const PerfPlan plan = Plan(OptionsFor("all_reduce"));
  EXPECT_THAT(plan.algorithms, ElementsAre(""));
  EXPECT_FALSE(plan.may_skip);
}

TEST_F(PerfPlanTest, NamedAlgorithmsMustServe) {
  PerfOptions options = OptionsFor("all_reduce");
  options.algorithms = {"Trees", "Rings"};
  const PerfPlan plan = Plan(options);
  EXPECT_THAT(plan.algorithms, ElementsAre("Trees", "Rings"));
  EXPECT_FALSE(plan.may_skip);
  options.algorithms = {"Trees", "all"};
  ExpectRefused(options, "all stands alone");
  options.algorithms = {"Trees", "Stars"};
  ExpectRefused(options, "Stars");
  options = OptionsFor("gather");
  options.algorithms = {"Trees"};
  ExpectRefused(options, "Trees does not do gather");
}

TEST_F(PerfPlanTest, AllIsEveryAlgorithmOfTheCollective) {
  PerfOptions options = OptionsFor("all_reduce");
  options.algorithms = {"all"};
  const PerfPlan plan = Plan(options);
  EXPECT_THAT(plan.algorithms, ElementsAre("Rings", "Trees"));
  EXPECT_TRUE(plan.may_skip);
  options.collective.collective = "gather";
  EXPECT_THAT(PlanPerf(options, registry_), IsNotFound());
}

TEST_F(PerfPlanTest, APermuteGoesToTheNextRankByDefault) {
  PerfOptions options = OptionsFor("permute");
  options.devices = 3;
  EXPECT_THAT(Plan(options).workloads[0].spec.permutation,
              ElementsAre(1, 2, 0));
}

TEST_F(PerfPlanTest, GroupsHaveALimit) {
  PerfOptions options = OptionsFor("all_reduce");
  options.devices = kMaxGroupSize + 1;
  ExpectRefused(options, "at most 65536");
}

Workload AllReduceOf(int group_size, int64_t count) {
  return {.spec = *ParseCollectiveSpec({.collective = "all_reduce"}),
          .dtype = DType::kFloat32,
          .group_size = group_size,
          .count = count};
}

Measurement Measured(std::vector<int> micros) {
  Measurement measurement{.algorithm = "RingReduce"};
  for (int time : micros) {
    measurement.times.push_back(absl::Microseconds(time));
  }
  return measurement;
}

TEST(PerfRowTest, PercentilesAreTimesThatWereMeasured) {
  std::vector<absl::Duration> times;
  for (int i = 100; i >= 1; --i) times.push_back(absl::Microseconds(i));
  EXPECT_EQ(Percentile(times, 50), absl::Microseconds(50));
  EXPECT_EQ(Percentile(times, 99), absl::Microseconds(99));
  EXPECT_EQ(Percentile(times, 100), absl::Microseconds(100));
  times.resize(20);  // Leaves 81 to 100.
  EXPECT_EQ(Percentile(times, 50), absl::Microseconds(90));
  EXPECT_EQ(Percentile(times, 99), absl::Microseconds(100));
  times.resize(1);
  EXPECT_EQ(Percentile(times, 50), absl::Microseconds(100));
}

TEST(PerfRowTest, BusFactorsAreTheFields) {
  EXPECT_EQ(BusFactor(CollectiveType::kAllReduce, 8), 2 * 7 / 8.0);
  EXPECT_EQ(BusFactor(CollectiveType::kAllGather, 8), 7 / 8.0);
  EXPECT_EQ(BusFactor(CollectiveType::kReduceScatter, 8), 7 / 8.0);
  EXPECT_EQ(BusFactor(CollectiveType::kAllToAll, 8), 7 / 8.0);
  EXPECT_EQ(BusFactor(CollectiveType::kBroadcast, 8), 1);
  EXPECT_EQ(BusFactor(CollectiveType::kScan, 8), 1);
  EXPECT_EQ(BusFactor(CollectiveType::kExscan, 8), 1);
  EXPECT_EQ(BusFactor(CollectiveType::kAllReduce, 1), 0);
}

TEST(PerfRowTest, BandwidthsFollowFromTheMedian) {
  // 8 ranks read and write 4 MB in 1 ms. Moving 64 MB at 128 GB/s takes 0.5 ms.
  const PerfRow row =
      MakePerfRow(AllReduceOf(8, 1000000), Measured({900, 1000, 5000}));
  EXPECT_EQ(row.bytes, 4000000);
  EXPECT_EQ(row.p50_us, 1000);
  EXPECT_EQ(row.p99_us, 5000);
  EXPECT_THAT(row.algbw, DoubleNear(4.0, 1e-9));
  EXPECT_THAT(row.busbw, DoubleNear(7.0, 1e-9));
  EXPECT_THAT(*LimitShare(row, 128e9), DoubleNear(0.5, 1e-9));
}

TEST(PerfRowTest, OfOneSizeTheFasterRowIsNearerToTheLimit) {
  const PerfRow slow = MakePerfRow(AllReduceOf(8, 1000), Measured({30, 20}));
  const PerfRow fast = MakePerfRow(AllReduceOf(8, 1000), Measured({19, 40}));
  EXPECT_GT(*LimitShare(fast, 1e9), *LimitShare(slow, 1e9));
}

TEST(PerfRowTest, ABarrierHasNoBandwidthAndNoLimit) {
  const Workload barrier = {.spec = {.type = CollectiveType::kBarrier},
                            .group_size = 8};
  const PerfRow row = MakePerfRow(barrier, Measured({10}));
  EXPECT_EQ(row.bytes, 0);
  EXPECT_EQ(row.algbw, 0);
  EXPECT_FALSE(LimitShare(row, 1e9).has_value());
  EXPECT_EQ(ToJson(row, /*copy_bandwidth=*/0).dump(),
            R"({"collective":"barrier","bytes":0,"count":0,"dtype":null,)"
            R"("reduction":null,"algorithm":"RingReduce","p50_us":10.0,)"
            R"("p99_us":10.0,"algbw":0.0,"busbw":0.0,"wrong":null,)"
            R"("limit_share":null})");
}

TEST(PerfRowTest, NoTimeAtAllIsNoDivisionByZero) {
  const PerfRow row = MakePerfRow(AllReduceOf(2, 1), Measured({0}));
  EXPECT_LT(row.algbw, 1e9);
}

TEST(PerfRowTest, CellsAreForPeople) {
  Measurement measurement = Measured({1000});
  measurement.wrong = 3;
  EXPECT_THAT(Cells(MakePerfRow(AllReduceOf(8, 1000000), measurement), 128e9),
              ElementsAre("4000000", "1000000", "float32", "sum", "RingReduce",
                          "1000.0", "1000.0", "4.000", "7.000", "3", "50.0"));
  const PerfRow barrier =
      MakePerfRow({.spec = {.type = CollectiveType::kBarrier}}, Measured({10}));
  EXPECT_THAT(Cells(barrier, /*copy_bandwidth=*/0),
              ElementsAre("0", "0", "-", "-", "RingReduce", "10.0", "10.0",
                          "0.000", "0.000", "-", "-"));
}

TEST(PerfRowTest, JsonKeysAreTheOnesPromised) {
  const auto json = ToJson(MakePerfRow(AllReduceOf(8, 10), Measured({1})), 1e9);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys, ElementsAre("collective", "bytes", "count", "dtype",
                                "reduction", "algorithm", "p50_us", "p99_us",
                                "algbw", "busbw", "wrong", "limit_share"));
}

StoreTimes Times(int64_t bytes, int to_caches, int past_caches) {
  return {bytes, absl::Microseconds(to_caches),
          absl::Microseconds(past_caches)};
}

TEST(StoreCalibrationTest, BeginsWhereItIsNeverSlowerAgain) {
  EXPECT_EQ(PastCachesFrom({Times(1, 5, 4), Times(2, 9, 10), Times(4, 20, 19),
                            Times(8, 40, 30)}),
            4);
}

TEST(StoreCalibrationTest, NoiseIsNoLoss) {
  EXPECT_EQ(PastCachesFrom({Times(1, 100, 106), Times(2, 100, 80),
                            Times(4, 100, 105), Times(8, 100, 70)}),
            2);
}

TEST(StoreCalibrationTest, EqualTimesSpareTheCaches) {
  EXPECT_EQ(PastCachesFrom({Times(1, 5, 5), Times(2, 9, 9)}), 1);
}

TEST(StoreCalibrationTest, NeverMeansPastTheLargestThatWasMeasured) {
  EXPECT_EQ(PastCachesFrom({Times(1, 5, 4), Times(2, 9, 10)}), 4);
}

TEST(StoreCalibrationTest, MeasuresEachSizeBothWays) {
  const DefaultEnvironment environment(2);
  const auto times =
      MeasureStores(environment.get(),
                    {.min_bytes = 1 << 20, .max_bytes = 4 << 20, .rounds = 1});
  ASSERT_THAT(times, IsOk());
  ASSERT_THAT(*times, SizeIs(3));
  for (const StoreTimes& size : *times) {
    EXPECT_GT(size.to_caches, absl::ZeroDuration());
    EXPECT_GT(size.past_caches, absl::ZeroDuration());
  }
  EXPECT_EQ(times->back().bytes, 4 << 20);
}

TEST(StoreCalibrationTest, ADeadlineEndsIt) {
  const DefaultEnvironment environment(2);
  EXPECT_THAT(
      MeasureStores(environment.get(), {.deadline = absl::Nanoseconds(1)}),
      IsDeadlineExceeded("deadline"));
}

// Covers every alignment of both sides, and every length around vectors and
// lines.
TEST(StreamCopyTest, CopiesExactlyTheBytesAskedFor) {
  constexpr size_t kMaxBytes = 300;
  std::vector<uint8_t> from(kMaxBytes + 64);
  std::iota(from.begin(), from.end(), uint8_t{1});
  for (size_t skip = 0; skip < 64; skip += 3) {
    for (size_t num_bytes = 0; num_bytes <= kMaxBytes; ++num_bytes) {
      std::vector<uint8_t> into(kMaxBytes + 128, 0);
      std::vector<uint8_t> wanted = into;
      std::copy_n(&from[skip / 2], num_bytes, &wanted[skip]);
      StreamCopy(reinterpret_cast<std::byte*>(&into[skip]),
                 reinterpret_cast<const std::byte*>(&from[skip / 2]),
                 num_bytes);
      ASSERT_EQ(into, wanted) << "skip " << skip << ", bytes " << num_bytes;
    }
  }
}

// Collects a number of calls, then ends all of them, the first one last. Each
// start and each end takes a second.
class FakeExecutor {
 public:
  FakeExecutor(size_t num_calls, TickingClock* clock)
      : num_calls_(num_calls), clock_(clock) {}

  void ExecuteAsync(StatusCallback done) {
    clock_->Advance(absl::Seconds(1));
    waiting_.push_back(std::move(done));
    if (waiting_.size() < num_calls_) return;
    while (!waiting_.empty()) {
      clock_->Advance(absl::Seconds(1));
      const bool fails = waiting_.size() == 2 && fails_;
      std::move(waiting_.back())(fails ? absl::AbortedError("the second")
                                       : absl::OkStatus());
      waiting_.pop_back();
    }
  }

  void FailTheSecond() { fails_ = true; }

 private:
  const size_t num_calls_;
  TickingClock* const clock_;
  bool fails_ = false;
  std::vector<StatusCallback> waiting_;
};

class TimedRunTest : public testing::Test {
 protected:
  absl::StatusOr<absl::Duration> RunThree() {
    return TimedRun(
        [this](CollectiveArgs, StatusCallback done) {
          executor_.ExecuteAsync(std::move(done));
        },
        &clock_, std::vector<CollectiveArgs>(3));
  }

  TickingClock clock_{{absl::ZeroDuration()}};
  FakeExecutor executor_{3, &clock_};
};

TEST_F(TimedRunTest, TakesTheTimeOfTheSlowestRank) {
  EXPECT_EQ(*RunThree(), absl::Seconds(6));
}

TEST_F(TimedRunTest, OneFailureIsTheResult) {
  executor_.FailTheSecond();
  EXPECT_THAT(RunThree(), IsAborted("the second"));
}

// Runs what the options say by every algorithm, and looks at every element.
void ExpectAllRight(PerfOptions options) {
  const DefaultEnvironment environment(2);
  options.algorithms = {"all"};
  const auto plan = PlanPerf(options, CollectiveRegistry::Global());
  ASSERT_THAT(plan, IsOk());
  auto party = LocalParty(environment.get())(options.devices, options.tasks);
  ASSERT_THAT(party, IsOk());
  PerfRunner runner(environment.get(),
                    {.warmup = 1, .iterations = 3, .check = true},
                    *std::move(party));
  for (const Workload& workload : plan->workloads) {
    const auto buffers = PerfBuffers::Create(workload, {0, options.devices},
                                             {.in_place = options.in_place,
                                              .hot = options.hot,
                                              .check = workload.count > 0},
                                             environment.get().queue);
    ASSERT_THAT(buffers, IsOk());
    for (const std::string& algorithm : plan->algorithms) {
      SCOPED_TRACE(absl::StrCat(ToString(workload.spec), " of ", workload.count,
                                " by ", algorithm));
      const auto measured = runner.Measure(buffers->get(), algorithm);
      const bool may_refuse = IsMeanOfIntegers(
          workload.dtype, workload.spec.merge_op, workload.spec.final_op);
      if (may_refuse && absl::IsInvalidArgument(measured.status())) {
        EXPECT_THAT(measured, IsInvalidArgument("average of integers"));
        continue;
      }
      ASSERT_THAT(measured, IsOk());
      EXPECT_EQ(measured->algorithm, algorithm);
      EXPECT_EQ(measured->wrong, 0);
    }
  }
}

TEST(PerfRunnerTest, EveryAlgorithmOfEveryCollectiveIsRight) {
  for (const CollectiveType type : kAllCollectiveTypes) {
    for (const bool spread_and_hot : {false, true}) {
      for (const bool in_place : {false, true}) {
        PerfOptions options = {.devices = 4,
                               .tasks = spread_and_hot ? 2 : 1,
                               .sweep = {.max_bytes = "1M", .factor = 512},
                               .hot = spread_and_hot,
                               .in_place = in_place};
        options.collective.collective = std::string(Name(type));
        ExpectAllRight(options);
      }
    }
  }
}

TEST(PerfRunnerTest, EveryDTypeIsRightAndOneDeviceIsEnough) {
  const char* const others[] = {"avg", "prod", "min"};
  for (size_t i = 0; i < kAllDTypes.size(); ++i) {
    if (kAllDTypes[i] == DType::kBool) continue;
    for (const char* reduction : {"sum", others[i % 3]}) {
      for (const int devices : {1, 5}) {
        PerfOptions options = {
            .devices = devices,
            .sweep = {.bytes = "64K",
                      .dtype = std::string(Name(kAllDTypes[i]))}};
        options.collective = {.collective = "all_reduce",
                              .reduction = reduction};
        ExpectAllRight(options);
      }
    }
  }
}

TuneOptions OneBarrier() {
  TuneOptions options;
  options.collectives = {"barrier"};
  options.layouts = {"2x4"};
  return options;
}

TEST(TunePlanTest, WithoutAClusterAllRanksAreInThisProcess) {
  const auto questions = PlanTuning(OneBarrier());
  ASSERT_THAT(questions, IsOk());
  ASSERT_EQ(questions->size(), 1u);
  EXPECT_EQ(questions->front().ranks.first, 0);
  EXPECT_EQ(questions->front().ranks.count, 8);
  EXPECT_TRUE(RequestFor(questions->front(), {}).one_process);
}

TEST(TunePlanTest, InAClusterEachTaskHasItsRanks) {
  TuneOptions options = OneBarrier();
  options.cluster = {.cluster = {.addresses = {"a:1", "b:1"}, .this_task = 1},
                     .devices_per_task = 4};
  const auto questions = PlanTuning(options);
  ASSERT_THAT(questions, IsOk());
  ASSERT_EQ(questions->size(), 1u);
  EXPECT_EQ(questions->front().ranks.first, 4);
  EXPECT_EQ(questions->front().ranks.count, 4);
  EXPECT_FALSE(RequestFor(questions->front(), {}).one_process);
}

TEST(TunePlanTest, TheChoiceKnowsWhoConnectsTheTasksAndWhatMessagesCost) {
  const auto questions = PlanTuning(OneBarrier());
  ASSERT_THAT(questions, IsOk());
  SelectionPolicy policy{.delegate = "MPI"};
  policy.model.between_gap_seconds = 3;
  const SelectionRequest request = RequestFor(questions->front(), policy);
  EXPECT_EQ(request.delegate, "MPI");
  EXPECT_EQ(request.model.between_gap_seconds, 3);
}

TEST(TunePlanTest, RoundsGoOnWhileTheyAreShort) {
  const TuneOptions options;
  EXPECT_TRUE(WantsAnotherRound(options, 4, absl::Hours(1)));
  EXPECT_FALSE(WantsAnotherRound(options, 5, absl::Milliseconds(500)));
  EXPECT_TRUE(WantsAnotherRound(options, 5, absl::Milliseconds(499)));
  EXPECT_TRUE(WantsAnotherRound(options, 24, absl::Milliseconds(1)));
  EXPECT_FALSE(WantsAnotherRound(options, 25, absl::Milliseconds(1)));
}

TEST(TunePlanTest, ThereAreAsManyRoundsAsAreAskedFor) {
  const TuneOptions options = {.rounds = 7};
  EXPECT_TRUE(WantsAnotherRound(options, 6, absl::Hours(1)));
  EXPECT_FALSE(WantsAnotherRound(options, 7, absl::ZeroDuration()));
}

constexpr int64_t kNoEnd = std::numeric_limits<int64_t>::max();

TunedPoint Point(int64_t bytes, TimesByAlgorithm times) {
  return {.layout = GroupLayout::Uniform(1, 4),
          .bytes = bytes,
          .to_choose = std::move(times)};
}

std::vector<SelectionRule> RulesOf(const std::vector<TunedPoint>& points) {
  return RulesFrom(points).rules;
}

TEST(TunedRulesTest, TheRatioIsToTheFastest) {
  const TimesByAlgorithm times = {{"A", 2}, {"B", 3}};
  EXPECT_EQ(RatioToBest(times, "A"), 1);
  EXPECT_EQ(RatioToBest(times, "B"), 1.5);
  EXPECT_EQ(RatioToBest(times, "C"), std::numeric_limits<double>::infinity());
}

TEST(TunedRulesTest, BordersAreBetweenTheSizesAndTheEndsAreOpen) {
  const auto rules =
      RulesOf({Point(4, {{"A", 1}, {"B", 2}}), Point(16, {{"A", 1}, {"B", 2}}),
               Point(64, {{"A", 2}, {"B", 1}})});
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].implementation, "A");
  EXPECT_EQ(rules[0].layout, "1x4");
  EXPECT_EQ(rules[0].one_process, true);
  EXPECT_EQ(rules[0].min_bytes, 0);
  EXPECT_EQ(rules[0].max_bytes, 32);
  EXPECT_EQ(rules[1].implementation, "B");
  EXPECT_EQ(rules[1].min_bytes, 33);
  EXPECT_EQ(rules[1].max_bytes, kNoEnd);
}

TEST(TunedRulesTest, OneRuleIsForAllPointsAtWhichItIsNearTheBest) {
  const auto rules = RulesOf({Point(4, {{"A", 1.00}, {"B", 1.02}}),
                              Point(16, {{"A", 1.04}, {"B", 1.00}}),
                              Point(64, {{"A", 1.20}, {"B", 1.00}})});
  ASSERT_EQ(rules.size(), 1u);
  EXPECT_EQ(rules[0].implementation, "B");
}

TEST(TunedRulesTest, EachCollectiveAndLayoutHasRulesOfItsOwn) {
  std::vector<TunedPoint> points(3, Point(4, {{"A", 1}}));
  points[1].layout = GroupLayout::Uniform(2, 2);
  points[2].type = CollectiveType::kBroadcast;
  const auto rules = RulesOf(points);
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[1].layout, "2x2");
  EXPECT_EQ(rules[2].type, CollectiveType::kBroadcast);
  for (const SelectionRule& rule : rules) {
    EXPECT_EQ(rule.min_bytes, 0);
    EXPECT_EQ(rule.max_bytes, kNoEnd);
  }
}

TEST(TunedRulesTest, RulesAreForProcessesLikeThoseThatWereMeasured) {
  std::vector<TunedPoint> points(2, Point(4, {{"A", 1}}));
  points[1].one_process = false;
  const auto rules = RulesOf(points);
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].one_process, true);
  EXPECT_EQ(rules[1].one_process, false);
  EXPECT_EQ(rules[1].min_bytes, 0);
}

TEST(TunedRulesTest, NeighbouringSizesHaveABorderToo) {
  const auto rules =
      RulesOf({Point(4, {{"A", 1}, {"B", 2}}), Point(5, {{"A", 2}, {"B", 1}})});
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_EQ(rules[0].max_bytes, 4);
  EXPECT_EQ(rules[1].min_bytes, 5);
}

TEST(TunedRulesTest, WithoutPointsThereAreNoRules) {
  EXPECT_TRUE(RulesOf({}).empty());
}

}  // namespace measure_test
}  // namespace tutti
