#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/reduce/reduction_reference_testing.h"
#include "framework/reduce/reduction_test_data.h"
#include "framework/tensor/float16.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/reduction.h"

namespace tutti {
namespace merge_op_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_THAT(MergeOp::Custom({.apply = Append}), IsInvalidArgument("name"));
  EXPECT_THAT(MergeOp::Custom({.name = "append"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("append"), HasSubstr("function"))));
}

TEST(MergeOpTest, ACustomOpCannotTakeABuiltInName) {
  for (ReductionKind kind : kAllReductionKinds) {
    const std::string name(Name(kind));
    EXPECT_THAT(MergeOp::Custom({.name = name, .apply = Append}),
                IsInvalidArgument(name));
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
                IsInvalidArgument("77"));
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
              IsInternal("odd"));
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
  EXPECT_THAT(FinalOp::Custom({.apply = Negate}), IsInvalidArgument("name"));
  EXPECT_THAT(FinalOp::Custom({.name = "negate"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("negate"), HasSubstr("function"))));
  for (const char* name : {"identity", "divide_by_group_size"}) {
    EXPECT_THAT(FinalOp::Custom({.name = name, .apply = Negate}),
                IsInvalidArgument(name));
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

// Longer than a tile, by an odd number of elements.
constexpr int64_t kElements = 5001;

// Returns 2 left + right, which shows the order of operands.
MergeOp Doubling() {
  return *MergeOp::Custom(
      {.name = "doubling",
       .apply = [](DType, const void* left, const void* right, void* into,
                   int64_t num_elements) {
         for (int64_t i = 0; i < num_elements; ++i) {
           int32_t a;
           int32_t b;
           std::memcpy(&a, static_cast<const int32_t*>(left) + i, sizeof(a));
           std::memcpy(&b, static_cast<const int32_t*>(right) + i, sizeof(b));
           a = 2 * a + b;
           std::memcpy(static_cast<int32_t*>(into) + i, &a, sizeof(a));
         }
         return absl::OkStatus();
       }});
}

// Buffers of one value each.
class Buffers {
 public:
  explicit Buffers(absl::Span<const int32_t> values) {
    for (const int32_t value : values) values_.emplace_back(kElements, value);
    for (auto& buffer : values_) {
      inputs_.push_back(reinterpret_cast<const uint8_t*>(buffer.data()));
    }
  }

  absl::Status FoldInto(size_t index, const MergeOp& merge_op,
                        const FinalOp& final_op) {
    auto* const output = reinterpret_cast<uint8_t*>(values_[index].data());
    return Fold(DType::kInt32, merge_op, final_op,
                {.inputs = inputs_,
                 .outputs = absl::MakeConstSpan(&output, 1),
                 .num_bytes = kElements * 4});
  }

  const std::vector<int32_t>& operator[](size_t index) const {
    return values_[index];
  }

 private:
  std::vector<std::vector<int32_t>> values_;
  std::vector<const uint8_t*> inputs_;
};

std::vector<int32_t> All(int32_t value) {
  return std::vector<int32_t>(kElements, value);
}

TEST(FoldTest, AnyInputMayBeTheOutput) {
  for (const size_t output : {0, 1, 2, 3}) {
    Buffers custom({1, 2, 3, 4});
    ASSERT_THAT(custom.FoldInto(output, Doubling(), FinalOp()), IsOk());
    EXPECT_EQ(custom[output], All(2 * (2 * (2 * 1 + 2) + 3) + 4));
    Buffers sum({1, 2, 3, 4});
    ASSERT_THAT(sum.FoldInto(output, MergeOp(), FinalOp()), IsOk());
    EXPECT_EQ(sum[output], All(10));
    Buffers average({1, 2, 3, 5});
    ASSERT_THAT(
        average.FoldInto(output, MergeOp(), FinalOp::DivideByGroupSize()),
        IsOk());
    EXPECT_EQ(average[output], All(2));
  }
}

TEST(FoldTest, ErrorsAreThoseOfTheOp) {
  const MergeOp failing = *MergeOp::Custom(
      {.name = "failing",
       .apply = [](DType, const void*, const void*, void*, int64_t) {
         return absl::DataLossError("lost");
       }});
  Buffers buffers({1, 2, 3});
  EXPECT_THAT(buffers.FoldInto(0, failing, FinalOp()),
              StatusIs(absl::StatusCode::kDataLoss, "op failing failed: lost"));
}

TEST(FoldTest, SmallFloatsAreRoundedOnce) {
  const std::vector<uint16_t> inputs = {FloatToFloat16(2048), FloatToFloat16(1),
                                        FloatToFloat16(1)};
  std::vector<const uint8_t*> pointers;
  for (const uint16_t& input : inputs) {
    pointers.push_back(reinterpret_cast<const uint8_t*>(&input));
  }
  uint16_t sum = 0;
  auto* const output = reinterpret_cast<uint8_t*>(&sum);
  ASSERT_THAT(Fold(DType::kFloat16, MergeOp(), FinalOp(),
                   {.inputs = pointers,
                    .outputs = absl::MakeConstSpan(&output, 1),
                    .num_bytes = 2}),
              IsOk());
  EXPECT_EQ(Float16ToFloat(sum), 2050.0f);  // Pairwise: 2048.
}

TEST(FoldTest, SmallFloatsAreRoundedOnceBeforeAFinalOpOfTheCaller) {
  const std::vector<uint16_t> inputs = {FloatToFloat16(2048), FloatToFloat16(1),
                                        FloatToFloat16(1)};
  std::vector<const uint8_t*> pointers;
  for (const uint16_t& input : inputs) {
    pointers.push_back(reinterpret_cast<const uint8_t*>(&input));
  }
  const FinalOp none = *FinalOp::Custom(
      {.name = "none",
       .apply = [](DType, void*, int64_t, int) { return absl::OkStatus(); }});
  uint16_t sum = 0;
  auto* const output = reinterpret_cast<uint8_t*>(&sum);
  ASSERT_THAT(Fold(DType::kFloat16, MergeOp(), none,
                   {.inputs = pointers,
                    .outputs = absl::MakeConstSpan(&output, 1),
                    .num_bytes = 2}),
              IsOk());
  EXPECT_EQ(Float16ToFloat(sum), 2050.0f);
}

TEST(FoldTest, AnAverageMayBeThatOfALargerGroup) {
  const float values[] = {3, 5};
  const auto* const bytes = reinterpret_cast<const uint8_t*>(values);
  const std::vector<const uint8_t*> inputs = {bytes, bytes + sizeof(float)};
  float average = 0;
  auto* const output = reinterpret_cast<uint8_t*>(&average);
  ASSERT_THAT(Fold(DType::kFloat32, MergeOp(), FinalOp::DivideByGroupSize(),
                   {.inputs = inputs,
                    .outputs = absl::MakeConstSpan(&output, 1),
                    .num_bytes = sizeof(float),
                    .group_size = 16}),
              IsOk());
  EXPECT_EQ(average, 0.5f);
}

// Checks that each call finds the right kernel. Kernels have separate tests.

constexpr size_t kNumElements = 1001;

TEST(ReductionTest, EverySupportedPairMatchesTheReference) {
  for (const ReductionPair& pair : SupportedPairs()) {
    const Bytes left = RandomElements(pair.dtype, kNumElements, 1);
    const Bytes right = RandomElements(pair.dtype, kNumElements, 2);
    Bytes into(left.size()), expected(left.size());
    Reduce(pair.kind, pair.dtype, left.data(), right.data(), into.data(),
           kNumElements);
    ReferenceReduce(pair.kind, pair.dtype, left.data(), right.data(),
                    expected.data(), kNumElements);
    EXPECT_EQ(into, expected) << Describe(pair);
  }
}

TEST(ReductionTest, ManyBuffersOfEverySupportedPairMatchTheReference) {
  for (const ReductionPair& pair : SupportedPairs()) {
    const Bytes a = RandomElements(pair.dtype, kNumElements, 1);
    const Bytes b = RandomElements(pair.dtype, kNumElements, 2);
    const Bytes c = RandomElements(pair.dtype, kNumElements, 3);
    Bytes one(a.size()), other(a.size()), expected(a.size());
    const std::vector<const uint8_t*> inputs = {a.data(), b.data(), c.data()};
    ReduceMany({.kind = pair.kind,
                .dtype = pair.dtype,
                .inputs = inputs,
                .outputs = {one.data()},
                .streamed = {other.data()},
                .num_elements = kNumElements});
    ReferenceReduceMany(pair.kind, pair.dtype, inputs, expected.data(),
                        kNumElements, 1);
    EXPECT_EQ(one, expected) << Describe(pair);
    EXPECT_EQ(other, expected) << Describe(pair);
  }
}

TEST(ReductionTest, UnsupportedPairsChangeNothing) {
  for (DType dtype : kAllDTypes) {
    for (ReductionKind kind : kAllReductionKinds) {
      if (CheckSupported(kind, dtype).ok()) continue;
      const Bytes ones(kNumElements * SizeOf(dtype), 1);
      Bytes into(ones.size(), 0);
      Reduce(kind, dtype, ones.data(), ones.data(), into.data(), kNumElements);
      EXPECT_EQ(into, Bytes(ones.size(), 0)) << Describe({kind, dtype});
    }
  }
}

TEST(ReductionTest, KindsAndDtypesThatThereAreNotChangeNothing) {
  const auto kind = static_cast<ReductionKind>(77);
  const auto dtype = static_cast<DType>(77);
  int32_t values[] = {1, 2};
  Reduce(kind, DType::kInt32, values, values, values, 2);
  Reduce(ReductionKind::kSum, dtype, values, values, values, 2);
  DivideBy(dtype, values, 2, 2);
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], 2);
}

TEST(ReductionTest, NoElementsNeedNoMemory) {
  for (const ReductionPair& pair : SupportedPairs()) {
    Reduce(pair.kind, pair.dtype, nullptr, nullptr, nullptr, 0);
  }
  for (DType dtype : kAllDTypes) DivideBy(dtype, nullptr, 0, 2);
}

TEST(ReductionTest, DivisionOfEveryDTypeMatchesTheReference) {
  for (DType dtype : kAllDTypes) {
    Bytes values = RandomElements(dtype, kNumElements, 3);
    Bytes expected = values;
    DivideBy(dtype, values.data(), kNumElements, 3);
    ReferenceDivideBy(dtype, expected.data(), kNumElements, 3);
    EXPECT_EQ(values, expected) << Name(dtype);
  }
}

TEST(ReductionTest, DivisionLeavesBoolAlone) {
  Bytes values(kNumElements, 1);
  DivideBy(DType::kBool, values.data(), kNumElements, 3);
  EXPECT_EQ(values, Bytes(kNumElements, 1));
}

}  // namespace merge_op_test
}  // namespace tutti
