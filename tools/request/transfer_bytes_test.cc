#include "tools/request/transfer_bytes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tutti {
namespace transfer_bytes_test {

using ::testing::ElementsAre;

// Rank 0 sends chunks 0, 1 and 2 to rank 1, and copies one.
GroupPlan PlanOf(CollectiveType type, int num_chunks, Slot first_into) {
  std::vector<Schedule> schedules(2, {.num_chunks = num_chunks});
  schedules[0].lanes.push_back(
      {{.kind = StepKind::kCopy, .into = Data(0), .left = Input(0)}});
  for (int chunk = 0; chunk < num_chunks; ++chunk) {
    Slot into = first_into;
    into.chunk = chunk;
    schedules[0].lanes[0].push_back({.kind = StepKind::kSend,
                                     .left = Input(chunk),
                                     .peer = 1,
                                     .tag = chunk});
    schedules[1].lanes.resize(1);
    schedules[1].lanes[0].push_back(
        {.kind = StepKind::kRecv, .into = into, .peer = 0, .tag = chunk});
  }
  const auto plan = GroupPlan::Create({.type = type,
                                       .num_ranks = 2,
                                       .num_chunks = num_chunks,
                                       .in_place = {false, false}},
                                      schedules);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

TEST(TransferBytesTest, AreThoseOfTheChunks) {
  const GroupPlan plan = PlanOf(CollectiveType::kAllReduce, 3, Data(0));
  EXPECT_THAT(
      TransferBytes(plan,
                    {.dtype = DType::kFloat32, .group_size = 2, .count = 7}),
      ElementsAre(0, 12, 8, 8, /* rank 1: */ 12, 8, 8));
}

TEST(TransferBytesTest, EmptyChunksHaveNone) {
  const GroupPlan plan = PlanOf(CollectiveType::kAllReduce, 3, Scratch(0));
  EXPECT_THAT(
      TransferBytes(plan,
                    {.dtype = DType::kFloat64, .group_size = 2, .count = 1}),
      ElementsAre(0, 8, 0, 0, /* rank 1: */ 8, 0, 0));
}

TEST(TransferBytesTest, BlocksAreThoseOfRanks) {
  std::vector<Schedule> schedules(2, {.num_chunks = 2});
  for (int rank : {0, 1}) {
    schedules[rank].lanes = {
        {{.kind = StepKind::kSend, .left = Input(rank), .peer = 1 - rank}},
        {{.kind = StepKind::kRecv, .into = Data(1 - rank), .peer = 1 - rank}}};
  }
  const auto plan = GroupPlan::Create({.type = CollectiveType::kAllGather,
                                       .num_ranks = 2,
                                       .num_chunks = 2,
                                       .in_place = {false, false}},
                                      schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(
      TransferBytes(*plan, {.spec = {.type = CollectiveType::kAllGather},
                            .dtype = DType::kInt8,
                            .group_size = 2,
                            .count = 10}),
      ElementsAre(5, 5, 5, 5));
}

TEST(TransferBytesTest, TheTokenOfABarrierIsOneByte) {
  std::vector<Schedule> schedules(2);
  schedules[0].lanes = {
      {{.kind = StepKind::kSend, .left = Input(0), .peer = 1}}};
  schedules[1].lanes = {
      {{.kind = StepKind::kRecv, .into = Scratch(0), .peer = 0}}};
  const auto plan = GroupPlan::Create({.type = CollectiveType::kBarrier,
                                       .num_ranks = 2,
                                       .in_place = {false, false}},
                                      schedules);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(TransferBytes(*plan, {.spec = {.type = CollectiveType::kBarrier},
                                    .group_size = 2}),
              ElementsAre(1, 1));
}

}  // namespace transfer_bytes_test
}  // namespace tutti
