#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"

namespace tutti {
namespace collective_type_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<CollectiveType> ThoseWhere(bool (*is)(CollectiveType)) {
  std::vector<CollectiveType> types;
  for (CollectiveType type : kAllCollectiveTypes) {
    if (is(type)) types.push_back(type);
  }
  return types;
}

TEST(CollectiveTypeTest, EveryNameParsesBack) {
  for (CollectiveType type : kAllCollectiveTypes) {
    const auto parsed = ParseCollectiveType(Name(type));
    ASSERT_THAT(parsed, IsOk());
    EXPECT_EQ(*parsed, type);
  }
}

TEST(CollectiveTypeTest, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT(ParseCollectiveType("allreduce"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"allreduce\""),
                             HasSubstr("all_reduce"), HasSubstr("scatter"))));
}

TEST(CollectiveTypeTest, ThreeReduce) {
  EXPECT_THAT(ThoseWhere(Reduces), ElementsAre(CollectiveType::kAllReduce,
                                               CollectiveType::kReduceScatter,
                                               CollectiveType::kReduce));
}

TEST(CollectiveTypeTest, FourHaveARoot) {
  EXPECT_THAT(ThoseWhere(HasRoot),
              ElementsAre(CollectiveType::kBroadcast, CollectiveType::kReduce,
                          CollectiveType::kGather, CollectiveType::kScatter));
}

TEST(CollectiveTypeTest, FiveHaveABlockForEachRank) {
  EXPECT_THAT(
      ThoseWhere(HasRankBlocks),
      ElementsAre(CollectiveType::kAllGather, CollectiveType::kReduceScatter,
                  CollectiveType::kAllToAll, CollectiveType::kGather,
                  CollectiveType::kScatter));
}

TEST(CollectiveTypeTest, GathersBringAndScattersTakeTheirOwnBlock) {
  EXPECT_THAT(ThoseWhere(InputIsOwnBlock),
              ElementsAre(CollectiveType::kAllGather, CollectiveType::kGather));
  EXPECT_THAT(
      ThoseWhere(OutputIsOwnBlock),
      ElementsAre(CollectiveType::kReduceScatter, CollectiveType::kScatter));
}

TEST(CollectiveTypeTest, OnlyTheRootOfABroadcastOrScatterHasAnInput) {
  for (CollectiveType type : kAllCollectiveTypes) {
    const bool root_only =
        type == CollectiveType::kBroadcast || type == CollectiveType::kScatter;
    const bool nobody = type == CollectiveType::kBarrier;
    EXPECT_EQ(HasInput(type, /*rank=*/2, /*root=*/2), !nobody) << Name(type);
    EXPECT_EQ(HasInput(type, /*rank=*/0, /*root=*/2), !nobody && !root_only)
        << Name(type);
  }
}

TEST(CollectiveTypeTest, OnlyTheRootOfAReduceOrGatherHasAnOutput) {
  for (CollectiveType type : kAllCollectiveTypes) {
    const bool root_only =
        type == CollectiveType::kReduce || type == CollectiveType::kGather;
    const bool nobody = type == CollectiveType::kBarrier;
    EXPECT_EQ(HasOutput(type, /*rank=*/2, /*root=*/2), !nobody) << Name(type);
    EXPECT_EQ(HasOutput(type, /*rank=*/0, /*root=*/2), !nobody && !root_only)
        << Name(type);
  }
}

}  // namespace collective_type_test
}  // namespace tutti
