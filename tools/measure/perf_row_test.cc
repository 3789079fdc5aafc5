#include "tools/measure/perf_row.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace perf_row_test {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

Workload AllReduceOf(int group_size, int64_t count) {
  return {.spec = *ParseCollectiveSpec({.collective = "all_reduce"}),
          .dtype = DType::kFloat32,
          .group_size = group_size,
          .count = count};
}

Measurement Of(std::vector<int> micros) {
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
  EXPECT_EQ(BusFactor(CollectiveType::kAllReduce, 1), 0);
}

TEST(PerfRowTest, BandwidthsFollowFromTheMedian) {
  // 8 ranks read and write 4 MB in 1 ms. Moving 64 MB at 128 GB/s takes 0.5 ms.
  const PerfRow row =
      MakePerfRow(AllReduceOf(8, 1000000), Of({900, 1000, 5000}));
  EXPECT_EQ(row.bytes, 4000000);
  EXPECT_EQ(row.p50_us, 1000);
  EXPECT_EQ(row.p99_us, 5000);
  EXPECT_THAT(row.algbw, DoubleNear(4.0, 1e-9));
  EXPECT_THAT(row.busbw, DoubleNear(7.0, 1e-9));
  EXPECT_THAT(*LimitShare(row, 128e9), DoubleNear(0.5, 1e-9));
}

TEST(PerfRowTest, OfOneSizeTheFasterRowIsNearerToTheLimit) {
  const PerfRow slow = MakePerfRow(AllReduceOf(8, 1000), Of({30, 20}));
  const PerfRow fast = MakePerfRow(AllReduceOf(8, 1000), Of({19, 40}));
  EXPECT_GT(*LimitShare(fast, 1e9), *LimitShare(slow, 1e9));
}

TEST(PerfRowTest, ABarrierHasNoBandwidthAndNoLimit) {
  const Workload barrier = {.spec = {.type = CollectiveType::kBarrier},
                            .group_size = 8};
  const PerfRow row = MakePerfRow(barrier, Of({10}));
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
  const PerfRow row = MakePerfRow(AllReduceOf(2, 1), Of({0}));
  EXPECT_LT(row.algbw, 1e9);
}

TEST(PerfRowTest, CellsAreForPeople) {
  Measurement measurement = Of({1000});
  measurement.wrong = 3;
  EXPECT_THAT(Cells(MakePerfRow(AllReduceOf(8, 1000000), measurement), 128e9),
              ElementsAre("4000000", "1000000", "float32", "sum", "RingReduce",
                          "1000.0", "1000.0", "4.000", "7.000", "3", "50.0"));
  const PerfRow barrier =
      MakePerfRow({.spec = {.type = CollectiveType::kBarrier}}, Of({10}));
  EXPECT_THAT(Cells(barrier, /*copy_bandwidth=*/0),
              ElementsAre("0", "0", "-", "-", "RingReduce", "10.0", "10.0",
                          "0.000", "0.000", "-", "-"));
}

TEST(PerfRowTest, JsonKeysAreTheOnesPromised) {
  const auto json = ToJson(MakePerfRow(AllReduceOf(8, 10), Of({1})), 1e9);
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.push_back(key);
  }
  EXPECT_THAT(keys, ElementsAre("collective", "bytes", "count", "dtype",
                                "reduction", "algorithm", "p50_us", "p99_us",
                                "algbw", "busbw", "wrong", "limit_share"));
}

}  // namespace perf_row_test
}  // namespace tutti
