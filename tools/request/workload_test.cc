#include "tools/request/workload.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace workload_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kReduction = Segment::kReduction;

Workload Of(CollectiveType type, int root = 0) {
  return {.spec = {.type = type, .root = root, .permutation = {2, 0, 1}},
          .dtype = DType::kFloat32,
          .group_size = 3,
          .count = 12};
}

TEST(WorkloadTest, CountsAreRoundedDownToWholeElements) {
  EXPECT_EQ(CountFor(CollectiveType::kAllReduce, DType::kFloat32, 3, 11), 2);
  EXPECT_EQ(CountFor(CollectiveType::kAllReduce, DType::kFloat64, 3, 4), 1);
}

TEST(WorkloadTest, CountsAreMultiplesOfTheGroupWhereThereAreBlocks) {
  for (CollectiveType type :
       {CollectiveType::kAllGather, CollectiveType::kReduceScatter,
        CollectiveType::kAllToAll, CollectiveType::kGather,
        CollectiveType::kScatter}) {
    EXPECT_EQ(CountFor(type, DType::kFloat32, 3, 44), 9);
    EXPECT_EQ(CountFor(type, DType::kFloat32, 3, 4), 3);
  }
}

TEST(WorkloadTest, ABarrierHasNoData) {
  EXPECT_EQ(CountFor(CollectiveType::kBarrier, DType::kFloat32, 3, 64), 0);
  Workload barrier = Of(CollectiveType::kBarrier);
  barrier.count = 0;
  EXPECT_EQ(LeastMovedBytes(barrier), 0);
  EXPECT_THAT(ExpectedOutput(barrier, 0), IsEmpty());
}

TEST(WorkloadTest, ReductionsGiveTheReduction) {
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kAllReduce), 2),
              ElementsAre(Segment{kReduction, 0, 12}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kReduceScatter), 2),
              ElementsAre(Segment{kReduction, 8, 4}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kReduce, 1), 1),
              ElementsAre(Segment{kReduction, 0, 12}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kReduce, 1), 0), IsEmpty());
}

TEST(WorkloadTest, GathersGiveAllBlocksInRankOrder) {
  EXPECT_THAT(
      ExpectedOutput(Of(CollectiveType::kAllGather), 2),
      ElementsAre(Segment{0, 0, 4}, Segment{1, 0, 4}, Segment{2, 0, 4}));
  EXPECT_THAT(
      ExpectedOutput(Of(CollectiveType::kGather, 2), 2),
      ElementsAre(Segment{0, 0, 4}, Segment{1, 0, 4}, Segment{2, 0, 4}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kGather, 2), 1), IsEmpty());
}

TEST(WorkloadTest, OthersGiveWhatTheirNamesSay) {
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kBroadcast, 1), 2),
              ElementsAre(Segment{1, 0, 12}));
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kScatter, 1), 2),
              ElementsAre(Segment{1, 8, 4}));
  EXPECT_THAT(
      ExpectedOutput(Of(CollectiveType::kAllToAll), 2),
      ElementsAre(Segment{0, 8, 4}, Segment{1, 8, 4}, Segment{2, 8, 4}));
  // Rank 0 sends to rank 2.
  EXPECT_THAT(ExpectedOutput(Of(CollectiveType::kPermute), 2),
              ElementsAre(Segment{0, 0, 12}));
}

TEST(WorkloadTest, InputsAreWhatTheRequestSays) {
  for (CollectiveType type : kAllCollectiveTypes) {
    if (type == CollectiveType::kBarrier) continue;
    const Workload workload = Of(type, 1);
    EXPECT_EQ(RequestOf(workload, 1).shape.num_elements(),
              InputElements(workload, 1));
    EXPECT_THAT(Validate(RequestOf(workload, 1)), IsOk());
  }
  EXPECT_EQ(InputElements(Of(CollectiveType::kAllGather), 0), 4);
  EXPECT_EQ(InputElements(Of(CollectiveType::kScatter, 1), 0), 0);
  EXPECT_EQ(InputElements(Of(CollectiveType::kScatter, 1), 1), 12);
}

TEST(WorkloadTest, OutputsAreAsLargeAsTheirSegments) {
  for (CollectiveType type : kAllCollectiveTypes) {
    for (int rank = 0; rank < 3; ++rank) {
      int64_t elements = 0;
      for (const Segment& segment : ExpectedOutput(Of(type, 1), rank)) {
        elements += segment.count;
      }
      EXPECT_EQ(OutputElements(Of(type, 1), rank), elements) << Name(type);
    }
  }
}

// Regression: the call took a minute, listing 65536 segments of each of 65536
// ranks.
TEST(WorkloadTest, TheLeastOfTheLargestGroupIsKnownAtOnce) {
  const Workload workload = {.spec = {.type = CollectiveType::kAllGather},
                             .dtype = DType::kInt8,
                             .group_size = kMaxGroupSize,
                             .count = kMaxGroupSize};
  for (int times = 0; times < 100; ++times) {
    ASSERT_EQ(LeastMovedBytes(workload),
              int64_t{kMaxGroupSize} * (kMaxGroupSize + 1));
  }
}

TEST(WorkloadTest, TheLeastIsEveryInputAndOutputOnce) {
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kAllReduce)), 2 * 3 * 48);
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kAllToAll)), 2 * 3 * 48);
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kAllGather)), 48 + 3 * 48);
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kBroadcast)), 48 + 3 * 48);
  EXPECT_EQ(LeastMovedBytes(Of(CollectiveType::kGather)), 2 * 48);
}

TEST(WorkloadTest, TheLeastOfTheLargestWorkloadDoesNotOverflow) {
  const Workload workload = {.spec = {.type = CollectiveType::kAllReduce},
                             .dtype = DType::kFloat32,
                             .group_size = kMaxGroupSize,
                             .count = int64_t{1} << 48};
  EXPECT_EQ(LeastMovedBytes(workload), std::numeric_limits<int64_t>::max());
}

}  // namespace workload_test
}  // namespace tutti
