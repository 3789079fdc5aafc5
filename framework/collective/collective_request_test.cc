// Requests: their checks, and the row of each collective type.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "framework/collective/op_fields.h"
#include "framework/collective/params_test_data.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {
namespace collective_request_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
          ScatterFromRoot{.root = 3},
          Scan{},
          Exscan{}};
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
        CollectiveOp(Permute{{1, 2, 3, 0}}), CollectiveOp(ReduceToRoot{}),
        CollectiveOp(Scan{}), CollectiveOp(Exscan{})}) {
    CollectiveRequest request = Good(op);
    request.shape = TensorShape();
    EXPECT_THAT(Validate(request), IsOk());
  }
}

TEST(CollectiveRequestTest, RowsPerPairMayDiffer) {
  EXPECT_THAT(Validate(Good(AllToAll{.send_rows = {0, 7, 0, 1}})), IsOk());
  EXPECT_THAT(Validate(Good(AllToAll{.send_rows = {0, 7, 0, 1},
                                     .recv_rows = {0, 0, 0, 90}})),
              IsOk());
}

TEST(CollectiveRequestTest, RowsOfRanksMayDiffer) {
  const std::vector<int64_t> many = {8, 0, kInt64Max - 8, 0};
  EXPECT_THAT(Validate(Good(AllGather{.uneven = true, .rows = many})), IsOk());
  EXPECT_THAT(Validate(Good(GatherToRoot{.uneven = true, .rows = many})),
              IsOk());
  const std::vector<int64_t> eight = {8, 0, 0, 0};
  EXPECT_THAT(Validate(Good(ReduceScatter{.uneven = true, .rows = eight})),
              IsOk());
  EXPECT_THAT(Validate(Good(ScatterFromRoot{.uneven = true, .rows = eight})),
              IsOk());
}

TEST(CollectiveRequestTest, AnUnevenScatterNeedsNoDivisibleRows) {
  for (const CollectiveOp& op :
       {CollectiveOp(ReduceScatter{.uneven = true}),
        CollectiveOp(ScatterFromRoot{.uneven = true})}) {
    CollectiveRequest request = Good(op);
    request.shape = ShapeOf({7, 3});
    EXPECT_THAT(Validate(request), IsOk());
  }
}

TEST(KnownRowsTest, AreGivenOrBalanced) {
  const std::vector<int64_t> rows = {5, 0, 1, 2};
  EXPECT_EQ(KnownRows(Good(AllGather{.uneven = true, .rows = rows})), rows);
  EXPECT_THAT(KnownRows(Good(AllGather{.uneven = true})), IsEmpty());
  EXPECT_EQ(KnownRows(Good(AllToAll{.send_rows = {5, 0, 1, 2},
                                    .recv_rows = {0, 0, 1, 9}})),
            (std::vector<int64_t>{5, 0, 1, 2, 0, 0, 1, 9}));
  EXPECT_THAT(KnownRows(Good(AllToAll{.send_rows = rows})), IsEmpty());
  for (const CollectiveOp& op :
       {CollectiveOp(ReduceScatter{.uneven = true}),
        CollectiveOp(ScatterFromRoot{.uneven = true})}) {
    CollectiveRequest request = Good(op);
    request.shape = ShapeOf({73, 2});
    EXPECT_THAT(KnownRows(request), ElementsAre(19, 18, 18, 18));
    request.shape = ShapeOf({2, 2});
    EXPECT_THAT(KnownRows(request), ElementsAre(1, 1, 0, 0));
  }
  EXPECT_THAT(KnownRows(Good(ReduceScatter{})), IsEmpty());
}

TEST(CollectiveRequestTest, AGatherNeedsNoDivisibleRows) {
  for (const CollectiveOp& op :
       {CollectiveOp(AllGather{}), CollectiveOp(GatherToRoot{})}) {
    CollectiveRequest request = Good(op);
    request.shape = ShapeOf({7, 3});
    EXPECT_THAT(Validate(request), IsOk());
  }
}

TEST(CollectiveRequestTest, BoolMovesEverywhereButInSums) {
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

// Change of a good request.
using Spoil = std::function<void(CollectiveRequest&)>;

struct BadRequest {
  std::string name;
  CollectiveOp op;
  Spoil spoil;
  std::vector<std::string> shown;
};

class BadRequestTest : public testing::TestWithParam<BadRequest> {};

TEST_P(BadRequestTest, IsInvalidAndShowsTheValues) {
  const BadRequest& bad = GetParam();
  CollectiveRequest request = Good(bad.op);
  if (bad.spoil) bad.spoil(request);
  const absl::Status status = Validate(request);
  EXPECT_THAT(status, IsInvalidArgument(std::string(Name(TypeOf(bad.op))),
                                        "group 5, instance 6"));
  for (const std::string& text : bad.shown) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

// Sets a field of the request, or of its details.
template <typename Value>
Spoil Set(Value CollectiveRequest::* field, std::type_identity_t<Value> value) {
  return [=](CollectiveRequest& request) { request.*field = value; };
}
template <typename Value>
Spoil Set(Value CollImplDetails::* field, std::type_identity_t<Value> value) {
  return
      [=](CollectiveRequest& request) { request.impl_details.*field = value; };
}
Spoil SetShape(std::vector<int64_t> dims) {
  return Set(&CollectiveRequest::shape, *TensorShape::Create(dims));
}

std::vector<BadRequest> BadRequests() {
  using Request = CollectiveRequest;
  const Spoil none;
  const std::vector<std::string> not_divisible = {"[7,4]", "not divisible",
                                                  "size 4"};
  const MergeOp custom = *MergeOp::Custom(
      {.name = "mine", .apply = [](auto...) { return absl::OkStatus(); }});
  const FinalOp custom_final = *FinalOp::Custom(
      {.name = "mine", .apply = [](auto...) { return absl::OkStatus(); }});
  std::vector<BadRequest> all;
  const auto add = [&](std::string name, CollectiveOp op, Spoil spoil,
                       std::vector<std::string> shown) {
    all.push_back(
        {std::move(name), std::move(op), std::move(spoil), std::move(shown)});
  };
  add("GroupSizeZero", AllReduce{}, Set(&Request::group_size, 0),
      {"group size 0", "between 1 and 65536"});
  add("GroupSizeNegative", AllReduce{}, Set(&Request::group_size, -4),
      {"group size -4"});
  add("GroupSizeTooLarge", AllReduce{}, Set(&Request::group_size, 65537),
      {"group size 65537"});
  add("RankTooLarge", AllReduce{}, Set(&Request::rank, 4),
      {"rank 4", "group of 4"});
  add("RankNegative", AllReduce{}, Set(&Request::rank, -2), {"rank -2"});
  add("NoDeviceType", AllReduce{}, Set(&Request::device_type, ""),
      {"device type is empty"});
  add("RootOfReduce", ReduceToRoot{4}, none, {"root 4", "of 4"});
  add("RootOfReduceNegative", ReduceToRoot{-1}, none, {"root -1"});
  add("RootOfGather", GatherToRoot{4}, none, {"root 4", "of 4"});
  add("RootOfGatherNegative", GatherToRoot{-1}, none, {"root -1"});
  add("RootOfScatter", ScatterFromRoot{9}, none, {"root 9", "of 4"});
  add("RootOfScatterNegative", ScatterFromRoot{-1}, none, {"root -1"});
  add("PermutationTooShort", Permute{{0, 1, 2}}, none,
      {"[0,1,2]", "4 ranks", "3 entries"});
  add("PermutationEmpty", Permute{}, none, {"0 entries"});
  add("PermutationOfNoRank", Permute{{0, 1, 2, 4}}, none,
      {"[0,1,2,4]", "4 is no rank"});
  add("PermutationNegative", Permute{{0, -1, 2, 3}}, none, {"-1 is no rank"});
  add("PermutationTwice", Permute{{0, 1, 2, 1}}, none,
      {"[0,1,2,1]", "1 stands twice"});
  add("ReduceScatterNotDivisible", ReduceScatter{}, SetShape({7, 4}),
      not_divisible);
  add("ScatterNotDivisible", ScatterFromRoot{}, SetShape({7, 4}),
      not_divisible);
  add("AllToAllNotDivisible", AllToAll{}, SetShape({7, 4}), not_divisible);
  add("ScalarAllGather", AllGather{}, SetShape({}), {"scalar"});
  add("ScalarGather", GatherToRoot{}, SetShape({}), {"scalar"});
  add("ScalarReduceScatter", ReduceScatter{}, SetShape({}), {"scalar"});
  add("ScalarScatter", ScatterFromRoot{}, SetShape({}), {"scalar"});
  add("ScalarAllToAll", AllToAll{}, SetShape({}), {"scalar"});
  add("ScalarAllToAllWithRows", AllToAll{{1, 0, 0, 0}}, SetShape({}),
      {"scalar"});
  add("TooManyBytes", AllReduce{},
      [](auto& request) {
        request.dtype = DType::kInt64;
        request.shape = ShapeOf({int64_t{1} << 60});
      },
      {"int64[1152921504606846976]", "64 bits"});
  add("GatherRowsTooFew", AllGather{.uneven = true, .rows = {4, 4}}, none,
      {"rows has 2 entries", "group of 4"});
  add("GatherRowsNegative", AllGather{.uneven = true, .rows = {9, -1, 0, 0}},
      none, {"out of range for rank 1: -1"});
  add("GatherRowsOverflow",
      AllGather{.uneven = true, .rows = {kInt64Max, 0, 1, 0}}, none,
      {"out of range for rank 2: 1"});
  add("GatherRowsEven", AllGather{.rows = {8, 8, 8, 8}}, none,
      {"rows are given, but not that it is uneven"});
  add("GatherToRootRowsEven", GatherToRoot{.rows = {8, 8, 8, 8}}, none,
      {"rows are given, but not that it is uneven"});
  add("ReduceScatterRowsEven", ReduceScatter{.rows = {2, 2, 2, 2}}, none,
      {"rows are given, but not that it is uneven"});
  add("ReduceScatterRowsTooMany",
      ReduceScatter{.uneven = true, .rows = {2, 2, 2, 2, 0}}, none,
      {"rows has 5 entries", "group of 4"});
  add("ReduceScatterRowsWrongTotal",
      ReduceScatter{.uneven = true, .rows = {1, 2, 3, 4}}, none,
      {"rows add up to 10", "[8,3] is 8"});
  add("ReduceScatterRowsNegative",
      ReduceScatter{.uneven = true, .rows = {9, -1, 0, 0}}, none,
      {"out of range for rank 1: -1"});
  add("ScatterRowsWrongTotal",
      ScatterFromRoot{.uneven = true, .rows = {1, 2, 3, 1}}, none,
      {"rows add up to 7", "[8,3] is 8"});
  add("ScalarUnevenScatter", ScatterFromRoot{.uneven = true}, SetShape({}),
      {"scalar"});
  add("SendRowsTooFew", AllToAll{{4, 4}}, none,
      {"send_rows has 2 entries", "group of 4"});
  add("SendRowsNegative", AllToAll{{9, -1, 0, 0}}, none,
      {"send_rows", "out of range for rank 1: -1"});
  add("SendRowsOverflow", AllToAll{{kInt64Max, kInt64Max, 0, 0}}, none,
      {"out of range for rank 1: 9223372036854775807"});
  add("SendRowsWrongTotal", AllToAll{{1, 2, 3, 4}}, none,
      {"send_rows add up to 10", "[8,3] is 8"});
  add("RecvRowsAlone", AllToAll{.recv_rows = {2, 2, 2, 2}}, none,
      {"recv_rows are given, but not send_rows"});
  add("RecvRowsTooFew", AllToAll{{2, 2, 2, 2}, {8}}, none,
      {"recv_rows has 1 entries", "group of 4"});
  add("RecvRowsOverflow", AllToAll{{2, 2, 2, 2}, {kInt64Max, 0, 0, 1}}, none,
      {"recv_rows has a value out of range for rank 3: 1"});
  add("ReductionOfBool", AllReduce{}, Set(&Request::dtype, DType::kBool),
      {"bool"});
  add("ReductionOfBitsOfFloats", ReduceToRoot{},
      Set(&Request::merge_op, ReductionKind::kBand), {"band", "float32"});
  add("AverageOfScan", Scan{},
      Set(&Request::final_op, FinalOp::DivideByGroupSize()),
      {"final op is divide_by_group_size", "takes none"});
  add("FinalOpOfExscan", Exscan{}, Set(&Request::final_op, custom_final),
      {"final op is mine", "takes none"});
  add("TooFewSubdivisions", AllReduce{},
      Set(&CollImplDetails::max_subdivs_per_device, -2),
      {"max_subdivs_per_device is -2"});
  add("ListsARankThatIsNot", AllReduce{},
      Set(&CollImplDetails::rank_list, {0, -1}),
      {"rank_list [0,-1] names rank -1"});
  add("ListsARankTwice", AllReduce{},
      Set(&CollImplDetails::rank_list, {1, 0, 1}),
      {"rank_list [1,0,1] names rank 1 twice"});
  add("DependsOnItself", AllReduce{},
      [](auto& request) {
        request.impl_details.dependencies = {{5, 1}, {5, 6}};
      },
      {"depends on itself"});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, BadRequestTest, testing::ValuesIn(BadRequests()),
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
    const auto parsed = ParseCollectiveType(Name(type)).value();
    EXPECT_EQ(parsed, type);
  }
}

TEST(CollectiveTypeTest, AnUnknownNameListsTheKnownOnes) {
  EXPECT_THAT(
      ParseCollectiveType("allreduce"),
      IsInvalidArgument("\"allreduce\" (did you mean all_reduce?)", "scatter"));
}

TEST(CollectiveTypeTest, FiveReduce) {
  EXPECT_THAT(
      ThoseWhere(Reduces),
      ElementsAre(CollectiveType::kAllReduce, CollectiveType::kReduceScatter,
                  CollectiveType::kReduce, CollectiveType::kScan,
                  CollectiveType::kExscan));
}

TEST(CollectiveTypeTest, TwoAreScans) {
  EXPECT_THAT(ThoseWhere(IsScan),
              ElementsAre(CollectiveType::kScan, CollectiveType::kExscan));
}

TEST(CollectiveTypeTest, ARankOfAScanGetsTheReductionOfTheRanksUpToIt) {
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(NumReduced(CollectiveType::kScan, rank, 4), rank + 1);
    EXPECT_EQ(NumReduced(CollectiveType::kExscan, rank, 4), rank);
    EXPECT_EQ(NumReduced(CollectiveType::kAllReduce, rank, 4), 4);
    EXPECT_EQ(NumReduced(CollectiveType::kReduceScatter, rank, 4), 4);
  }
}

TEST(CollectiveTypeTest, OnlyTheFirstRankOfAnExscanLacksAnOutput) {
  EXPECT_FALSE(HasOutput(CollectiveType::kExscan, /*rank=*/0, /*root=*/0));
  EXPECT_TRUE(HasInput(CollectiveType::kExscan, /*rank=*/0, /*root=*/0));
  EXPECT_TRUE(HasOutput(CollectiveType::kExscan, /*rank=*/1, /*root=*/0));
  EXPECT_TRUE(HasOutput(CollectiveType::kScan, /*rank=*/0, /*root=*/0));
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
    if (type == CollectiveType::kExscan) continue;
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

TEST(CollectiveShapesTest, AnUnevenScatterHasTheRowsOfItsRank) {
  const auto all =
      Instance(CollectiveType::kReduceScatter, ShapeOf({7, 2}), {4, 0, 3});
  EXPECT_EQ(ShapesOf(all, 0), (Shapes{ShapeOf({7, 2}), ShapeOf({4, 2})}));
  EXPECT_EQ(ShapesOf(all, 1), (Shapes{ShapeOf({7, 2}), ShapeOf({0, 2})}));
  const auto scatter =
      Instance(CollectiveType::kScatter, ShapeOf({7, 2}), {4, 0, 3});
  EXPECT_EQ(ShapesOf(scatter, kRoot),
            (Shapes{ShapeOf({7, 2}), ShapeOf({0, 2})}));
  EXPECT_EQ(ShapesOf(scatter, 2), (Shapes{kNone, ShapeOf({3, 2})}));
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

TEST(CollectiveShapesTest, ARankMayKnowItsOwnRowsOfAnAllToAllAlone) {
  auto exchange = Instance(CollectiveType::kAllToAll, ShapeOf({6, 2}),
                           {1, 2, 3,    // Sent by rank 1.
                            7, 2, 0});  // Received by rank 1.
  exchange.rows_are_given = true;
  exchange.rows_rank = 1;
  EXPECT_EQ(ShapesOf(exchange, 1), (Shapes{ShapeOf({6, 2}), ShapeOf({9, 2})}));
  EXPECT_EQ(BlockRows(exchange, kSize, 1, 2), 3);
  EXPECT_EQ(BlockRows(exchange, kSize, 0, 1), 7);
  EXPECT_EQ(BlockRows(exchange, kSize, 1, 1), 2);
  EXPECT_EQ(BlockRows(exchange, kSize, 0, 2), 0);
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
  EXPECT_EQ(BlockRows(Instance(CollectiveType::kReduceScatter, ShapeOf({7}),
                               {4, 0, 3}),
                      kSize, 0, 2),
            3);
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
