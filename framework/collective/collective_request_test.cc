// Requests: their checks, and the row of each collective type.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "framework/collective/params_test_data.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {
namespace collective_request_test {

using ::testing::AllOf;
using testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HasSubstr;

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

// Returns a request of a group of four that is valid for every collective.
CollectiveRequest Good(CollectiveOp op) {
  return {.group_key = 5,
          .group_size = 4,
          .instance_key = 6,
          .op = std::move(op),
          .shape = ShapeOf({8, 3})};
}

std::vector<CollectiveOp> AllOps() {
  return {AllReduce{},
          AllGather{},
          ReduceScatter{},
          Broadcast{},
          AllToAll{},
          Permute{.permutation = {1, 2, 3, 0}},
          Barrier{},
          ReduceToRoot{.root = 3},
          GatherToRoot{.root = 3},
          ScatterFromRoot{.root = 3}};
}

TEST(CollectiveRequestTest, TheOpsAreInTheOrderOfTheTypes) {
  const auto ops = AllOps();
  ASSERT_EQ(ops.size(), kAllCollectiveTypes.size());
  for (size_t i = 0; i < ops.size(); ++i) {
    EXPECT_EQ(TypeOf(ops[i]), kAllCollectiveTypes[i]);
  }
}

TEST(CollectiveRequestTest, GoodRequestsAreFine) {
  for (const CollectiveOp& op : AllOps()) {
    EXPECT_THAT(Validate(Good(op)), IsOk());
  }
}

TEST(CollectiveRequestTest, EmptyTensorsAreFine) {
  for (const CollectiveOp& op : AllOps()) {
    CollectiveRequest request = Good(op);
    request.shape = ShapeOf({0, 3});
    EXPECT_THAT(Validate(request), IsOk());
    request.shape = ShapeOf({8, 0});
    EXPECT_THAT(Validate(request), IsOk());
  }
}

TEST(CollectiveRequestTest, AsManySubdivisionsAsThereMayBeAreFine) {
  CollectiveRequest request = Good(AllReduce{});
  request.impl_details.subdiv_offsets.resize(kMaxSubdivisions);
  request.group_size = kMaxChunks / kMaxSubdivisions;
  EXPECT_THAT(Validate(request), IsOk());
}

TEST(CollectiveRequestTest, GroupsOfOneAndOfTheLargestSizeAreFine) {
  CollectiveRequest request = Good(AllReduce{});
  for (int size : {1, kMaxGroupSize}) {
    request.group_size = size;
    request.rank = size - 1;
    EXPECT_THAT(Validate(request), IsOk());
  }
}

TEST(CollectiveRequestTest, ScalarsAreFineWhereNothingIsCutIntoRows) {
  for (const CollectiveOp& op :
       {CollectiveOp(AllReduce{}), CollectiveOp(Broadcast{}),
        CollectiveOp(Permute{{1, 2, 3, 0}}), CollectiveOp(ReduceToRoot{})}) {
    CollectiveRequest request = Good(op);
    request.shape = TensorShape();
    EXPECT_THAT(Validate(request), IsOk());
  }
}

TEST(CollectiveRequestTest, RowsPerPairMayDiffer) {
  EXPECT_THAT(Validate(Good(AllToAll{.send_rows = {0, 7, 0, 1}})), IsOk());
  EXPECT_THAT(Validate(Good(
                  AllGather{.uneven = true, .rows = {8, 0, kInt64Max - 8, 0}})),
              IsOk());
}

TEST(CollectiveRequestTest, AGatherNeedsNoDivisibleRows) {
  for (const CollectiveOp& op :
       {CollectiveOp(AllGather{}), CollectiveOp(GatherToRoot{})}) {
    CollectiveRequest request = Good(op);
    request.shape = ShapeOf({7, 3});
    EXPECT_THAT(Validate(request), IsOk());
  }
}

TEST(CollectiveRequestTest, BoolMovesEverywhereButInReductions) {
  for (const CollectiveOp& op : AllOps()) {
    CollectiveRequest request = Good(op);
    request.dtype = DType::kBool;
    EXPECT_EQ(Validate(request).ok(), !Reduces(TypeOf(op)));
  }
}

TEST(CollectiveRequestTest, AMergeOpMattersOnlyInReductions) {
  for (const CollectiveOp& op : AllOps()) {
    CollectiveRequest request = Good(op);
    request.merge_op = ReductionKind::kBxor;
    EXPECT_EQ(Validate(request).ok(), !Reduces(TypeOf(op)));
  }
}

TEST(CollectiveRequestTest, RequestsThatDifferInOneFieldAreDifferent) {
  const CollectiveRequest request = Good(AllReduce{});
  std::vector<CollectiveRequest> others(14, request);
  ++others[0].group_key;
  ++others[1].group_size;
  others[2].device_type = "GPU";
  others[3].rank = 2;
  ++others[4].instance_key;
  others[5].op = Barrier{};
  others[6].dtype = DType::kInt8;
  others[7].shape = ShapeOf({3, 8});
  others[8].merge_op = ReductionKind::kMax;
  others[9].final_op = FinalOp::DivideByGroupSize();
  others[10].impl_details.implementation = "Ring";
  others[11].impl_details.subdiv_offsets = {0};
  others[12].impl_details.dependencies = {{5, 1}};
  others[13].impl_details.rank_list = {0};
  for (const CollectiveRequest& other : others) {
    EXPECT_FALSE(other == request);
  }
  EXPECT_TRUE(request == CollectiveRequest(request));
}

struct BadRequest {
  std::string name;
  CollectiveOp op;
  std::function<void(CollectiveRequest*)> spoil;
  std::vector<std::string> shown;
};

class BadRequestTest : public testing::TestWithParam<BadRequest> {};

TEST_P(BadRequestTest, IsInvalidAndShowsTheValues) {
  const BadRequest& bad = GetParam();
  CollectiveRequest request = Good(bad.op);
  if (bad.spoil) bad.spoil(&request);
  const absl::Status status = Validate(request);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(std::string(Name(TypeOf(bad.op)))),
                             HasSubstr("group 5, instance 6"))));
  for (const std::string& text : bad.shown) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Group, BadRequestTest,
    testing::Values(BadRequest{"SizeZero",
                               AllReduce{},
                               [](auto* request) { request->group_size = 0; },
                               {"group size 0", "between 1 and 65536"}},
                    BadRequest{"SizeNegative",
                               AllReduce{},
                               [](auto* request) { request->group_size = -4; },
                               {"group size -4"}},
                    BadRequest{
                        "SizeTooLarge",
                        AllReduce{},
                        [](auto* request) { request->group_size = 65537; },
                        {"group size 65537"}},
                    BadRequest{"RankTooLarge",
                               AllReduce{},
                               [](auto* request) { request->rank = 4; },
                               {"rank 4", "group of 4"}},
                    BadRequest{"RankNegative",
                               AllReduce{},
                               [](auto* request) { request->rank = -2; },
                               {"rank -2"}},
                    BadRequest{"NoDeviceType",
                               AllReduce{},
                               [](auto* request) { request->device_type = ""; },
                               {"device type is empty"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Root, BadRequestTest,
    testing::Values(
        BadRequest{"Reduce", ReduceToRoot{4}, nullptr, {"root 4", "of 4"}},
        BadRequest{"ReduceNegative", ReduceToRoot{-1}, nullptr, {"root -1"}},
        BadRequest{"Gather", GatherToRoot{4}, nullptr, {"root 4", "of 4"}},
        BadRequest{"GatherNegative", GatherToRoot{-1}, nullptr, {"root -1"}},
        BadRequest{"Scatter", ScatterFromRoot{9}, nullptr, {"root 9", "of 4"}},
        BadRequest{
            "ScatterNegative", ScatterFromRoot{-1}, nullptr, {"root -1"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Permutation, BadRequestTest,
    testing::Values(BadRequest{"TooShort",
                               Permute{{0, 1, 2}},
                               nullptr,
                               {"[0,1,2]", "4 ranks", "3 entries"}},
                    BadRequest{"Empty", Permute{}, nullptr, {"0 entries"}},
                    BadRequest{"NoRank",
                               Permute{{0, 1, 2, 4}},
                               nullptr,
                               {"[0,1,2,4]", "4 is no rank"}},
                    BadRequest{"NegativeRank",
                               Permute{{0, -1, 2, 3}},
                               nullptr,
                               {"-1 is no rank"}},
                    BadRequest{"Twice",
                               Permute{{0, 1, 2, 1}},
                               nullptr,
                               {"[0,1,2,1]", "1 stands twice"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Shape, BadRequestTest,
    testing::Values(
        BadRequest{"ReduceScatterNotDivisible",
                   ReduceScatter{},
                   [](auto* request) { request->shape = ShapeOf({7, 4}); },
                   {"[7,4]", "not divisible", "size 4"}},
        BadRequest{"ScatterNotDivisible",
                   ScatterFromRoot{},
                   [](auto* request) { request->shape = ShapeOf({7, 4}); },
                   {"[7,4]", "not divisible", "size 4"}},
        BadRequest{"AllToAllNotDivisible",
                   AllToAll{},
                   [](auto* request) { request->shape = ShapeOf({7, 4}); },
                   {"[7,4]", "not divisible", "size 4"}},
        BadRequest{"ScalarAllGather",
                   AllGather{},
                   [](auto* request) { request->shape = TensorShape(); },
                   {"scalar"}},
        BadRequest{"ScalarGather",
                   GatherToRoot{},
                   [](auto* request) { request->shape = TensorShape(); },
                   {"scalar"}},
        BadRequest{"ScalarReduceScatter",
                   ReduceScatter{},
                   [](auto* request) { request->shape = TensorShape(); },
                   {"scalar"}},
        BadRequest{"ScalarScatter",
                   ScatterFromRoot{},
                   [](auto* request) { request->shape = TensorShape(); },
                   {"scalar"}},
        BadRequest{"ScalarAllToAll",
                   AllToAll{},
                   [](auto* request) { request->shape = TensorShape(); },
                   {"scalar"}},
        BadRequest{"ScalarAllToAllWithRows",
                   AllToAll{{1, 0, 0, 0}},
                   [](auto* request) { request->shape = TensorShape(); },
                   {"scalar"}},
        BadRequest{"TooManyBytes",
                   AllReduce{},
                   [](auto* request) {
                     request->dtype = DType::kInt64;
                     request->shape = ShapeOf({int64_t{1} << 60});
                   },
                   {"int64[1152921504606846976]", "64 bits"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    GatherRows, BadRequestTest,
    testing::Values(BadRequest{"TooFew",
                               AllGather{.uneven = true, .rows = {4, 4}},
                               nullptr,
                               {"rows has 2 entries", "group of 4"}},
                    BadRequest{"Negative",
                               AllGather{.uneven = true, .rows = {9, -1, 0, 0}},
                               nullptr,
                               {"out of range for rank 1: -1"}},
                    BadRequest{
                        "Overflow",
                        AllGather{.uneven = true, .rows = {kInt64Max, 0, 1, 0}},
                        nullptr,
                        {"out of range for rank 2: 1"}},
                    BadRequest{"Even",
                               AllGather{.rows = {8, 8, 8, 8}},
                               nullptr,
                               {"rows are given, but not that it is uneven"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    SendRows, BadRequestTest,
    testing::Values(BadRequest{"TooFew",
                               AllToAll{{4, 4}},
                               nullptr,
                               {"send_rows has 2 entries", "group of 4"}},
                    BadRequest{"Negative",
                               AllToAll{{9, -1, 0, 0}},
                               nullptr,
                               {"[9,-1,0,0]", "out of range: -1"}},
                    BadRequest{"Overflow",
                               AllToAll{{kInt64Max, kInt64Max, 0, 0}},
                               nullptr,
                               {"9223372036854775807", "out of range"}},
                    BadRequest{"WrongTotal",
                               AllToAll{{1, 2, 3, 4}},
                               nullptr,
                               {"[1,2,3,4]", "add up to 10", "[8,3] is 8"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Reduction, BadRequestTest,
    testing::Values(BadRequest{"Bool",
                               AllReduce{},
                               [](auto* request) {
                                 request->dtype = DType::kBool;
                               },
                               {"bool"}},
                    BadRequest{"BitsOfFloats",
                               ReduceToRoot{},
                               [](auto* request) {
                                 request->merge_op = ReductionKind::kBand;
                               },
                               {"band", "float32"}},
                    BadRequest{"CustomOpOnBool",
                               ReduceScatter{},
                               [](auto* request) {
                                 request->dtype = DType::kBool;
                                 request->merge_op = *MergeOp::Custom(
                                     {.name = "mine", .apply = [](auto...) {
                                        return absl::OkStatus();
                                      }});
                               },
                               {"mine", "bool"}}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Details, BadRequestTest,
    testing::Values(BadRequest{"TooFewSubdivisions",
                               AllReduce{},
                               [](auto* request) {
                                 request->impl_details.max_subdivs_per_device =
                                     -2;
                               },
                               {"max_subdivs_per_device is -2"}},
                    BadRequest{"ListsARankThatIsNot",
                               AllReduce{},
                               [](auto* request) {
                                 request->impl_details.rank_list = {0, -1};
                               },
                               {"rank_list [0,-1] names rank -1"}},
                    BadRequest{"ListsARankTwice",
                               AllReduce{},
                               [](auto* request) {
                                 request->impl_details.rank_list = {1, 0, 1};
                               },
                               {"rank_list [1,0,1] names rank 1 twice"}},
                    BadRequest{"DependsOnItself",
                               AllReduce{},
                               [](auto* request) {
                                 request->impl_details.dependencies = {{5, 1},
                                                                       {5, 6}};
                               },
                               {"depends on itself"}}),
    [](const auto& info) { return info.param.name; });

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
  EXPECT_THAT(
      ParseCollectiveType("allreduce"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("\"allreduce\" (did you mean all_reduce?)"),
                     HasSubstr("scatter"))));
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

}  // namespace collective_request_test
}  // namespace tutti
