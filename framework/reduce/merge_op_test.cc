#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "tests/doubles/status_matchers.h"
#include "tutti/reduction.h"

namespace tutti {
namespace merge_op_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Returns left * 10 + right, which shows the order of operands.
absl::Status Append(DType dtype, const void* left, const void* right,
                    void* into, int64_t num_elements) {
  if (dtype != DType::kInt32) return absl::UnimplementedError("int32 only");
  const auto* const l = static_cast<const int32_t*>(left);
  const auto* const r = static_cast<const int32_t*>(right);
  auto* const result = static_cast<int32_t*>(into);
  for (int64_t i = 0; i < num_elements; ++i) result[i] = 10 * l[i] + r[i];
  return absl::OkStatus();
}

absl::Status Negate(DType, void* values, int64_t num_elements, int) {
  auto* const begin = static_cast<int32_t*>(values);
  for (int64_t i = 0; i < num_elements; ++i) begin[i] = -begin[i];
  return absl::OkStatus();
}

TEST(MergeOpTest, IsTheSumByDefault) {
  EXPECT_EQ(MergeOp().name(), "sum");
  EXPECT_EQ(MergeOp(), MergeOp(ReductionKind::kSum));
}

TEST(MergeOpTest, EveryReductionKindIsAMergeOpOfItsName) {
  for (ReductionKind kind : kAllReductionKinds) {
    const MergeOp op = kind;
    EXPECT_EQ(op.name(), Name(kind));
    EXPECT_TRUE(op.commutative());
    EXPECT_EQ(op == MergeOp(), kind == ReductionKind::kSum);
  }
}

TEST(MergeOpTest, ABuiltInOpIsApplied) {
  const int32_t left[] = {1, 5};
  const int32_t right[] = {4, 2};
  int32_t into[2];
  ASSERT_THAT(
      MergeOp(ReductionKind::kMax).Apply(DType::kInt32, left, right, into, 2),
      IsOk());
  EXPECT_THAT(into, ElementsAre(4, 5));
}

TEST(MergeOpTest, ACustomOpIsAppliedToLeftAndRightInThisOrder) {
  const auto op = MergeOp::Custom({.name = "append", .apply = Append});
  ASSERT_THAT(op, IsOk());
  int32_t left[] = {1, 5};
  const int32_t right[] = {4, 2};
  ASSERT_THAT(op->Apply(DType::kInt32, left, right, left, 2), IsOk());
  EXPECT_THAT(left, ElementsAre(14, 52));
}

TEST(MergeOpTest, ACustomOpCommutesOnlyIfItSaysSo) {
  EXPECT_FALSE(
      MergeOp::Custom({.name = "append", .apply = Append})->commutative());
  EXPECT_TRUE(
      MergeOp::Custom({.name = "or", .commutative = true, .apply = Append})
          ->commutative());
}

TEST(MergeOpTest, CustomOpsAreComparedByName) {
  const auto one = MergeOp::Custom({.name = "append", .apply = Append});
  const auto same = MergeOp::Custom(
      {.name = "append", .apply = [](auto...) { return absl::OkStatus(); }});
  const auto other = MergeOp::Custom({.name = "prepend", .apply = Append});
  EXPECT_EQ(*one, *same);
  EXPECT_FALSE(*one == *other);
  EXPECT_FALSE(*one == MergeOp());
}

TEST(MergeOpTest, ACustomOpNeedsANameAndAFunction) {
  EXPECT_THAT(MergeOp::Custom({.apply = Append}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
  EXPECT_THAT(MergeOp::Custom({.name = "append"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("append"), HasSubstr("function"))));
}

TEST(MergeOpTest, ACustomOpCannotTakeABuiltInName) {
  for (ReductionKind kind : kAllReductionKinds) {
    const std::string name(Name(kind));
    EXPECT_THAT(MergeOp::Custom({.name = name, .apply = Append}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
  }
}

TEST(MergeOpTest, BoolIsNeverReduced) {
  EXPECT_THAT(MergeOp().CheckSupports(DType::kBool), Not(IsOk()));
  const auto op = MergeOp::Custom({.name = "append", .apply = Append});
  EXPECT_THAT(op->CheckSupports(DType::kBool),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("append"), HasSubstr("bool"))));
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    EXPECT_THAT(op->CheckSupports(dtype), IsOk());
  }
}

TEST(MergeOpTest, ADtypeThatThereIsNotIsNeverReduced) {
  const auto custom =
      MergeOp::Custom({.name = "left",
                       .apply = [](DType, const void*, const void*, void*,
                                   int64_t) { return absl::OkStatus(); }});
  for (const MergeOp& op : {MergeOp(), *custom}) {
    EXPECT_THAT(op.CheckSupports(static_cast<DType>(77)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("77")));
  }
}

TEST(MergeOpTest, BitOperationsNeedIntegers) {
  EXPECT_THAT(MergeOp(ReductionKind::kBor).CheckSupports(DType::kFloat32),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("bor"), HasSubstr("float32"))));
  EXPECT_THAT(MergeOp(ReductionKind::kBor).CheckSupports(DType::kInt8), IsOk());
}

TEST(MergeOpTest, TheErrorOfACustomOpIsPassedOnWithItsName) {
  const auto op = MergeOp::Custom({.name = "append", .apply = Append});
  EXPECT_EQ(op->Apply(DType::kInt8, nullptr, nullptr, nullptr, 0),
            absl::UnimplementedError("op append failed: int32 only"));
}

TEST(MergeOpTest, WhatACustomOpThrowsBecomesInternal) {
  const auto op =
      MergeOp::Custom({.name = "append", .apply = [](auto...) -> absl::Status {
                         throw std::runtime_error("out of ink");
                       }});
  EXPECT_THAT(op->Apply(DType::kInt8, nullptr, nullptr, nullptr, 0),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("append"), HasSubstr("out of ink"))));
  const auto odd = MergeOp::Custom(
      {.name = "odd", .apply = [](auto...) -> absl::Status { throw 7; }});
  EXPECT_THAT(odd->Apply(DType::kInt8, nullptr, nullptr, nullptr, 0),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("odd")));
}

TEST(FinalOpTest, IsTheIdentityByDefault) {
  int32_t values[] = {7};
  EXPECT_TRUE(FinalOp().is_identity());
  EXPECT_EQ(FinalOp().name(), "identity");
  ASSERT_THAT(FinalOp().Apply(DType::kInt32, values, 1, 2), IsOk());
  EXPECT_EQ(values[0], 7);
}

TEST(FinalOpTest, DividesByTheSizeOfTheGroup) {
  float values[] = {6, 9};
  const FinalOp op = FinalOp::DivideByGroupSize();
  EXPECT_FALSE(op.is_identity());
  ASSERT_THAT(op.Apply(DType::kFloat32, values, 2, /*group_size=*/4), IsOk());
  EXPECT_THAT(values, ElementsAre(1.5f, 2.25f));
}

TEST(FinalOpTest, ACustomOpGetsTheSizeOfTheGroup) {
  int seen = 0;
  const auto op = FinalOp::Custom(
      {.name = "look", .apply = [&seen](DType, void*, int64_t, int group_size) {
         seen = group_size;
         return absl::OkStatus();
       }});
  ASSERT_THAT(op, IsOk());
  EXPECT_FALSE(op->is_identity());
  ASSERT_THAT(op->Apply(DType::kInt32, nullptr, 0, 5), IsOk());
  EXPECT_EQ(seen, 5);
}

TEST(FinalOpTest, OpsAreComparedByName) {
  const auto one = FinalOp::Custom({.name = "negate", .apply = Negate});
  const auto same = FinalOp::Custom(
      {.name = "negate", .apply = [](auto...) { return absl::OkStatus(); }});
  const auto other = FinalOp::Custom({.name = "flip", .apply = Negate});
  EXPECT_EQ(*one, *same);
  EXPECT_FALSE(*one == *other);
  EXPECT_FALSE(*one == FinalOp());
  EXPECT_FALSE(FinalOp() == FinalOp::DivideByGroupSize());
  EXPECT_EQ(FinalOp::DivideByGroupSize(), FinalOp::DivideByGroupSize());
}

TEST(FinalOpTest, ACustomOpNeedsANameOfItsOwnAndAFunction) {
  EXPECT_THAT(FinalOp::Custom({.apply = Negate}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name")));
  EXPECT_THAT(FinalOp::Custom({.name = "negate"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("negate"), HasSubstr("function"))));
  for (const char* name : {"identity", "divide_by_group_size"}) {
    EXPECT_THAT(FinalOp::Custom({.name = name, .apply = Negate}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(name)));
  }
}

TEST(FinalOpTest, WhatACustomOpThrowsBecomesInternal) {
  const auto op =
      FinalOp::Custom({.name = "negate", .apply = [](auto...) -> absl::Status {
                         throw std::runtime_error("out of ink");
                       }});
  EXPECT_THAT(op->Apply(DType::kInt8, nullptr, 0, 1),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("negate"), HasSubstr("out of ink"))));
}

}  // namespace merge_op_test
}  // namespace tutti
