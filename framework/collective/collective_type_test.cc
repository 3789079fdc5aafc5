#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "framework/collective/params_test_data.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {
namespace collective_type_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

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

constexpr int kSize = 3;
constexpr int kRoot = 1;

CollInstanceParams Instance(CollectiveType type, TensorShape shape,
                            std::vector<int64_t> rows = {}) {
  return {.type = type,
          .shape = std::move(shape),
          .root = kRoot,
          .rows = std::move(rows)};
}

struct Shapes {
  TensorShape input;
  TensorShape output;
  friend bool operator==(const Shapes&, const Shapes&) = default;
};

Shapes ShapesOf(const CollInstanceParams& instance, int rank) {
  return {InputShape(instance, kSize, rank).value(),
          OutputShape(instance, kSize, rank).value()};
}

const TensorShape kNone = TensorShape::Vector(0);

TEST(CollectiveShapesTest, WhatIsReducedOrPermutedKeepsItsShape) {
  const TensorShape shape = ShapeOf({6, 2});
  for (CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kPermute}) {
    for (int rank = 0; rank < kSize; ++rank) {
      EXPECT_EQ(ShapesOf(Instance(type, shape), rank), (Shapes{shape, shape}));
    }
  }
}

TEST(CollectiveShapesTest, OnlyTheRootOfAReduceHasAnOutput) {
  const TensorShape shape = ShapeOf({6, 2});
  const auto reduce = Instance(CollectiveType::kReduce, shape);
  EXPECT_EQ(ShapesOf(reduce, kRoot), (Shapes{shape, shape}));
  EXPECT_EQ(ShapesOf(reduce, 0), (Shapes{shape, kNone}));
}

TEST(CollectiveShapesTest, OnlyTheSourceOfABroadcastHasAnInput) {
  const TensorShape shape = ShapeOf({6, 2});
  const auto broadcast = Instance(CollectiveType::kBroadcast, shape);
  EXPECT_EQ(ShapesOf(broadcast, kRoot), (Shapes{shape, shape}));
  EXPECT_EQ(ShapesOf(broadcast, 2), (Shapes{kNone, shape}));
}

TEST(CollectiveShapesTest, AGatherHasTheRowsOfAll) {
  const auto all = Instance(CollectiveType::kAllGather, ShapeOf({6, 2}));
  EXPECT_EQ(ShapesOf(all, 0), (Shapes{ShapeOf({6, 2}), ShapeOf({18, 2})}));
  const auto gather = Instance(CollectiveType::kGather, ShapeOf({6, 2}));
  EXPECT_EQ(ShapesOf(gather, kRoot),
            (Shapes{ShapeOf({6, 2}), ShapeOf({18, 2})}));
  EXPECT_EQ(ShapesOf(gather, 0), (Shapes{ShapeOf({6, 2}), kNone}));
}

TEST(CollectiveShapesTest, AnUnevenGatherHasTheRowsThatEachRankGives) {
  for (CollectiveType type :
       {CollectiveType::kAllGather, CollectiveType::kGather}) {
    const auto gather = Instance(type, ShapeOf({4, 2}), {4, 0, 3});
    EXPECT_EQ(ShapesOf(gather, kRoot),
              (Shapes{ShapeOf({0, 2}), ShapeOf({7, 2})}));
    EXPECT_EQ(ShapesOf(gather, 2).input, ShapeOf({3, 2}));
  }
}

TEST(CollectiveShapesTest, AScatterHasOneBlockOfTheRows) {
  const auto all = Instance(CollectiveType::kReduceScatter, ShapeOf({6, 2}));
  EXPECT_EQ(ShapesOf(all, 0), (Shapes{ShapeOf({6, 2}), ShapeOf({2, 2})}));
  const auto scatter = Instance(CollectiveType::kScatter, ShapeOf({6, 2}));
  EXPECT_EQ(ShapesOf(scatter, kRoot),
            (Shapes{ShapeOf({6, 2}), ShapeOf({2, 2})}));
  EXPECT_EQ(ShapesOf(scatter, 0), (Shapes{kNone, ShapeOf({2, 2})}));
}

TEST(CollectiveShapesTest, AnEvenAllToAllKeepsItsShape) {
  const auto exchange = Instance(CollectiveType::kAllToAll, ShapeOf({6, 2}));
  EXPECT_EQ(ShapesOf(exchange, 2), (Shapes{ShapeOf({6, 2}), ShapeOf({6, 2})}));
}

TEST(CollectiveShapesTest, AnUnevenAllToAllHasWhatIsSentToIt) {
  const auto exchange = Instance(CollectiveType::kAllToAll, ShapeOf({6, 2}),
                                 {1, 2, 3,    // From rank 0.
                                  0, 4, 0,    // From rank 1.
                                  5, 0, 0});  // From rank 2.
  EXPECT_EQ(ShapesOf(exchange, 0), (Shapes{ShapeOf({6, 2}), ShapeOf({6, 2})}));
  EXPECT_EQ(ShapesOf(exchange, 1), (Shapes{ShapeOf({4, 2}), ShapeOf({6, 2})}));
  EXPECT_EQ(ShapesOf(exchange, 2), (Shapes{ShapeOf({5, 2}), ShapeOf({3, 2})}));
}

TEST(CollectiveShapesTest, ABarrierHasNeitherInputNorOutput) {
  const auto barrier = Instance(CollectiveType::kBarrier, ShapeOf({6, 2}));
  EXPECT_EQ(ShapesOf(barrier, 0), (Shapes{kNone, kNone}));
}

TEST(CollectiveShapesTest, BlocksAreWhatOneRankHasForAnother) {
  EXPECT_EQ(BlockRows(Instance(CollectiveType::kAllGather, ShapeOf({6})), kSize,
                      0, 2),
            6);
  EXPECT_EQ(
      BlockRows(Instance(CollectiveType::kGather, ShapeOf({4}), {4, 0, 3}),
                kSize, 2, 0),
      3);
  EXPECT_EQ(BlockRows(Instance(CollectiveType::kReduceScatter, ShapeOf({6})),
                      kSize, 0, 2),
            2);
  EXPECT_EQ(BlockRows(Instance(CollectiveType::kAllToAll, ShapeOf({6}),
                               {1, 2, 3, 0, 4, 0, 5, 0, 0}),
                      kSize, 2, 0),
            5);
}

TEST(CollectiveShapesTest, ARowIsAllButTheFirstDimension) {
  EXPECT_EQ(RowElements(ShapeOf({6, 2, 5})), 10);
  EXPECT_EQ(RowElements(ShapeOf({6})), 1);
  EXPECT_EQ(RowElements(ShapeOf({6, 0})), 0);
}

TEST(CollectiveShapesTest, AnOutputWithMoreRowsThan64BitsCountIsInvalid) {
  EXPECT_THAT(OutputShape(Instance(CollectiveType::kAllGather,
                                   ShapeOf({int64_t{1} << 62, 0})),
                          kSize, 0),
              IsInvalidArgument("more rows than 64 bits"));
  const int64_t huge = int64_t{1} << 62;
  EXPECT_THAT(
      OutputShape(Instance(CollectiveType::kAllToAll, ShapeOf({huge, 0}),
                           {huge, 0, 0, huge, 0, 0, huge, 0, 0}),
                  kSize, 0),
      IsInvalidArgument("rank 0 is sent more rows than 64 bits"));
}

TEST(CollectiveShapesTest, AnOutputWithMoreElementsThan64BitsCountIsInvalid) {
  EXPECT_THAT(OutputShape(Instance(CollectiveType::kAllGather,
                                   ShapeOf({1, int64_t{1} << 62})),
                          kSize, 0),
              IsInvalidArgument("[3,4611686018427387904]"));
}

}  // namespace collective_type_test
}  // namespace tutti
