#include "framework/collective/member_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "framework/collective/params_test_data.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace member_params_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kRank = 1;

// Params of an all_gather among three members.
std::shared_ptr<const CollectiveParams> Settled(std::vector<int64_t> rows) {
  return ParamsOf({.type = CollectiveType::kAllGather,
                   .shape = ShapeOf({rows[0], 2}),
                   .rows = std::move(rows)},
                  /*group_size=*/3, kRank);
}

CollectiveRequest Request(int64_t own_rows, std::vector<int64_t> rows) {
  CollectiveRequest request;
  request.group_key = 3;
  request.group_size = 3;
  request.instance_key = 4;
  request.op = AllGather{.uneven = true, .rows = std::move(rows)};
  request.shape = ShapeOf({own_rows, 2});
  return request;
}

TEST(ParamsOfCallTest, ARequestWithItsRowsGetsShapesByThese) {
  const auto settled = Settled({1, 2, 3});
  const auto params = ParamsOfCall(settled, Request(5, {4, 5, 0}));
  ASSERT_THAT(params, IsOk());
  EXPECT_THAT((*params)->instance->rows, ElementsAre(4, 5, 0));
  EXPECT_EQ((*params)->instance->shape, ShapeOf({4, 2}));
  EXPECT_EQ((*params)->input_shape, ShapeOf({5, 2}));
  EXPECT_EQ((*params)->output_shape, ShapeOf({9, 2}));
  EXPECT_EQ((*params)->default_rank, kRank);
  EXPECT_EQ((*params)->group, settled->group);
  EXPECT_EQ((*params)->task, settled->task);
}

TEST(ParamsOfCallTest, WithoutRowsOrWithTheSameItIsWhatWasSettled) {
  const auto settled = Settled({1, 2, 3});
  for (const auto& request : {Request(2, {}), Request(2, {1, 2, 3})}) {
    const auto params = ParamsOfCall(settled, request);
    ASSERT_THAT(params, IsOk());
    EXPECT_EQ(*params, settled);
  }
}

TEST(ParamsOfCallTest, RowsThatDoNotSuitTheShapeAreAnError) {
  EXPECT_THAT(
      ParamsOfCall(Settled({1, 2, 3}), Request(2, {4, 5, 0})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("group 3, instance 4"),
                     HasSubstr("rows says that rank 1 has 5 rows, but its "
                               "shape is [2,2]"))));
}

TEST(ParamsOfCallTest, AnOutputThatIsTooLargeIsAnError) {
  constexpr int64_t kMost = int64_t{1} << 62;
  EXPECT_THAT(ParamsOfCall(Settled({1, 2, 3}), Request(0, {kMost, 0, 0})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("group 3, instance 4"),
                             HasSubstr("4611686018427387904"))));
}

TEST(ParamsOfCallTest, RowsForAGroupOfAnotherSizeAreAnError) {
  EXPECT_THAT(ParamsOfCall(Settled({1, 2, 3}), Request(5, {4, 5})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("rows has 2 entries for a group of 3")));
}

}  // namespace member_params_test
}  // namespace tutti
