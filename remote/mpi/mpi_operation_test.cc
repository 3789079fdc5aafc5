#include "remote/mpi/mpi_operation.h"

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/collective_type.h"
#include "framework/params.h"
#include "framework/tensor_shape.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kGroupSize = 4;
constexpr int64_t kTooMany = int64_t{1} << 31;

absl::Status CheckOf(CollectiveType type, int64_t num_elements) {
  return MpiOperation::Check(
      {.type = type, .shape = TensorShape::Vector(num_elements)}, kGroupSize);
}

auto IsTooMany(int rank, int64_t num_elements) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  AllOf(HasSubstr(absl::StrCat("rank ", rank, " has ",
                                               num_elements, " elements")),
                        HasSubstr("choose another implementation")));
}

TEST(MpiOperationTest, BlocksHaveNoMoreElementsThanAnIntCounts) {
  static_assert(kTooMany - 1 == std::numeric_limits<int>::max());
  for (const CollectiveType type :
       {CollectiveType::kReduceScatter, CollectiveType::kAllToAll}) {
    EXPECT_THAT(CheckOf(type, kTooMany - kGroupSize), IsOk());
    EXPECT_THAT(CheckOf(type, kTooMany), IsTooMany(0, kTooMany));
  }
  const CollectiveType gather = CollectiveType::kAllGather;
  EXPECT_THAT(CheckOf(gather, kTooMany / kGroupSize - 1), IsOk());
  EXPECT_THAT(CheckOf(gather, kTooMany / kGroupSize), IsTooMany(0, kTooMany));
}

// Rank 2 alone gets as many.
TEST(MpiOperationTest, NoMemberHasMoreWhereTheyDiffer) {
  CollInstanceParams instance{.type = CollectiveType::kAllToAll,
                              .shape = *TensorShape::Create({4, 1 << 29}),
                              .rows = {0, 1, 1, 0,  //
                                       0, 1, 1, 1,  //
                                       1, 0, 1, 0,  //
                                       1, 0, 0, 1}};
  EXPECT_THAT(MpiOperation::Check(instance, kGroupSize), IsOk());
  instance.rows[4 * 3 + 2] = 1;
  EXPECT_THAT(MpiOperation::Check(instance, kGroupSize),
              IsTooMany(2, kTooMany));
}

TEST(MpiOperationTest, WhatGoesInPiecesHasAnyNumberOfElements) {
  for (const CollectiveType type :
       {CollectiveType::kAllReduce, CollectiveType::kReduce,
        CollectiveType::kBroadcast}) {
    EXPECT_THAT(CheckOf(type, int64_t{1} << 40), IsOk());
  }
}

TEST(MpiOperationTest, WhatItDoesNotDoIsRefused) {
  EXPECT_THAT(
      CheckOf(CollectiveType::kPermute, 1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("permute")));
}

}  // namespace
}  // namespace tutti
