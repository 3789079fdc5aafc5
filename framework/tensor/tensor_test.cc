#include "tutti/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "framework/collective/params_test_data.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace tensor_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class TensorTest : public testing::Test {
 protected:
  Tensor::Deleter CountDeletions() {
    return [this] { ++num_deletions_; };
  }
  absl::StatusOr<Tensor> WrapFloats(const TensorShape& shape) {
    return Tensor::Wrap(DType::kFloat32, shape, floats_, CountDeletions());
  }

  float floats_[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  int num_deletions_ = 0;
};

TEST_F(TensorTest, ADefaultTensorIsNotSet) {
  const Tensor tensor;
  EXPECT_FALSE(tensor.is_set());
  EXPECT_EQ(tensor.data(), nullptr);
  EXPECT_EQ(tensor.size_bytes(), 0u);
}

TEST_F(TensorTest, AllocatesAlignedMemoryForItsShape) {
  for (DType dtype : kAllDTypes) {
    auto tensor = Tensor::Allocate(dtype, ShapeOf({3, 5}));
    ASSERT_THAT(tensor, IsOk());
    EXPECT_TRUE(tensor->is_set());
    EXPECT_EQ(tensor->dtype(), dtype);
    EXPECT_EQ(tensor->num_elements(), 15);
    EXPECT_EQ(tensor->size_bytes(), 15 * SizeOf(dtype));
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(tensor->data()) % Tensor::kAlignmentBytes,
        0u);
    std::memset(tensor->mutable_data(), 0x5a, tensor->size_bytes());
  }
}

TEST_F(TensorTest, AllocatesNothingForAnEmptyShape) {
  const auto tensor = Tensor::Allocate(DType::kFloat64, ShapeOf({3, 0}));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_TRUE(tensor->is_set());
  EXPECT_EQ(tensor->size_bytes(), 0u);
}

TEST_F(TensorTest, MoreMemoryThanThereIsIsResourceExhausted) {
  EXPECT_THAT(Tensor::Allocate(DType::kUint8, ShapeOf({int64_t{1} << 62})),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("uint8[4611686018427387904]"),
                             HasSubstr("4611686018427387904 bytes"))));
}

TEST_F(TensorTest, OverflowOfShapeTimesSizeIsInvalid) {
  const TensorShape shape = ShapeOf({int64_t{1} << 60});
  const auto message =
      AllOf(HasSubstr("float64[1152921504606846976]"), HasSubstr("64 bits"));
  EXPECT_THAT(SizeInBytes(DType::kFloat64, shape),
              StatusIs(absl::StatusCode::kInvalidArgument, message));
  EXPECT_THAT(Tensor::Allocate(DType::kFloat64, shape),
              StatusIs(absl::StatusCode::kInvalidArgument, message));
  EXPECT_THAT(Tensor::Wrap(DType::kFloat64, shape, floats_),
              StatusIs(absl::StatusCode::kInvalidArgument, message));
  EXPECT_EQ(*SizeInBytes(DType::kInt8, shape), int64_t{1} << 60);
}

TEST_F(TensorTest, ADtypeThatThereIsNotIsInvalidAndShown) {
  const auto dtype = static_cast<DType>(77);
  const TensorShape shape = TensorShape::Vector(4);
  float data[4];
  const auto is_invalid =
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("77"));
  EXPECT_THAT(SizeInBytes(dtype, shape), is_invalid);
  EXPECT_THAT(Tensor::Wrap(dtype, shape, data), is_invalid);
  EXPECT_THAT(Tensor::Allocate(dtype, shape), is_invalid);
}

TEST_F(TensorTest, WrapAdoptsTheMemoryWithoutACopy) {
  auto tensor = WrapFloats(ShapeOf({3, 4}));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->data(), reinterpret_cast<const std::byte*>(floats_));
  EXPECT_EQ(tensor->size_bytes(), sizeof(floats_));
  const float value = 42;
  std::memcpy(tensor->mutable_data(), &value, sizeof(value));
  EXPECT_EQ(floats_[0], 42);
}

TEST_F(TensorTest, TheDeleterRunsOnceWithTheLastThatSharesTheMemory) {
  {
    Tensor copy;
    {
      auto tensor = WrapFloats(ShapeOf({12}));
      ASSERT_THAT(tensor, IsOk());
      copy = *tensor;
      const Tensor moved = *std::move(tensor);
      EXPECT_EQ(num_deletions_, 0);
    }
    EXPECT_EQ(num_deletions_, 0);
    copy = Tensor();
    EXPECT_EQ(num_deletions_, 1);
  }
  EXPECT_EQ(num_deletions_, 1);
}

TEST_F(TensorTest, TheDeleterRunsOnceWhereWrapFails) {
  EXPECT_THAT(Tensor::Wrap(DType::kFloat64, ShapeOf({int64_t{1} << 60}),
                           floats_, CountDeletions()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("64")));
  EXPECT_EQ(num_deletions_, 1);
  EXPECT_THAT(
      Tensor::Wrap(DType::kFloat32, ShapeOf({3}), nullptr, CountDeletions()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("null")));
  EXPECT_EQ(num_deletions_, 2);
}

TEST_F(TensorTest, ADeleterIsNotNeeded) {
  const auto tensor = Tensor::Wrap(DType::kFloat32, ShapeOf({12}), floats_);
  ASSERT_THAT(tensor, IsOk());
  Tensor copy;
  copy = *tensor;
  EXPECT_EQ(copy.data(), tensor->data());
}

TEST_F(TensorTest, ANullBufferIsInvalidAndItsSizeShown) {
  EXPECT_THAT(Tensor::Wrap(DType::kFloat32, ShapeOf({2, 3}), nullptr),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("null"), HasSubstr("float32[2,3]"),
                             HasSubstr("24 bytes"))));
}

TEST_F(TensorTest, ANullBufferWithoutElementsIsFine) {
  const auto tensor =
      Tensor::Wrap(DType::kFloat32, ShapeOf({0, 3}), nullptr, CountDeletions());
  ASSERT_THAT(tensor, IsOk());
  EXPECT_TRUE(tensor->is_set());
  EXPECT_EQ(tensor->size_bytes(), 0u);
  EXPECT_THAT(tensor->Slice(0, 0), IsOk());
}

TEST_F(TensorTest, MisalignedMemoryWorks) {
  alignas(8) std::byte bytes[1 + 3 * sizeof(double)] = {};
  auto tensor = Tensor::Wrap(DType::kFloat64, ShapeOf({3}), bytes + 1);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->data(), bytes + 1);
  const auto second = tensor->Slice(1, 2);
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->data(), bytes + 9);
}

TEST_F(TensorTest, SlicesShareTheMemory) {
  const auto tensor = WrapFloats(ShapeOf({3, 4}));
  ASSERT_THAT(tensor, IsOk());
  const auto rows = tensor->Slice(1, 3);
  ASSERT_THAT(rows, IsOk());
  EXPECT_EQ(rows->shape(), ShapeOf({2, 4}));
  EXPECT_EQ(rows->data(), reinterpret_cast<const std::byte*>(floats_ + 4));
  const auto row = rows->Slice(1, 2);
  ASSERT_THAT(row, IsOk());
  EXPECT_EQ(row->data(), reinterpret_cast<const std::byte*>(floats_ + 8));
}

TEST_F(TensorTest, ASliceKeepsTheMemoryAlive) {
  Tensor slice;
  {
    const auto tensor = WrapFloats(ShapeOf({3, 4}));
    ASSERT_THAT(tensor, IsOk());
    slice = *tensor->Slice(2, 2);
  }
  EXPECT_EQ(num_deletions_, 0);
  slice = Tensor();
  EXPECT_EQ(num_deletions_, 1);
}

TEST_F(TensorTest, ASliceOutsideTheFirstDimensionIsInvalidAndShown) {
  const auto tensor = WrapFloats(ShapeOf({3, 4}));
  ASSERT_THAT(tensor, IsOk());
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 2}, {0, 4}, {2, 1}, {4, 4}}) {
    EXPECT_THAT(
        tensor->Slice(begin, end),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr(std::to_string(begin)),
                       HasSubstr(std::to_string(end)), HasSubstr("[3,4]"))));
  }
}

TEST_F(TensorTest, AScalarCannotBeSliced) {
  const auto scalar = WrapFloats(TensorShape());
  ASSERT_THAT(scalar, IsOk());
  EXPECT_THAT(scalar->Slice(0, 1), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("scalar")));
  EXPECT_THAT(Tensor().Slice(0, 1), Not(IsOk()));
}

TEST_F(TensorTest, ReshapingSharesTheMemory) {
  auto tensor = WrapFloats(ShapeOf({3, 4}));
  ASSERT_THAT(tensor, IsOk());
  const auto flat = tensor->Reshaped(ShapeOf({12}));
  ASSERT_THAT(flat, IsOk());
  EXPECT_EQ(flat->data(), tensor->data());
  EXPECT_EQ(flat->shape(), ShapeOf({12}));
  *tensor = Tensor();
  EXPECT_EQ(num_deletions_, 0);
}

TEST_F(TensorTest, ReshapingToAnotherNumberOfElementsIsInvalidAndShown) {
  const auto tensor = WrapFloats(ShapeOf({3, 4}));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->Reshaped(ShapeOf({5, 2})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("[3,4] (12 elements)"),
                             HasSubstr("[5,2] (10 elements)"))));
}

TEST_F(TensorTest, WhatIsNotSetCannotBeReshaped) {
  EXPECT_THAT(
      Tensor().Reshaped(TensorShape()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not set")));
}

class OverlapTest : public testing::Test {
 protected:
  // Elements [begin, end) of one buffer.
  Tensor Bytes(int64_t begin, int64_t end) {
    return *Tensor::Wrap(DType::kUint8, ShapeOf({end - begin}),
                         buffer_ + begin);
  }

  uint8_t buffer_[8] = {};
};

TEST_F(OverlapTest, TheSameStretchIsTheSame) {
  EXPECT_EQ(OverlapOf(Bytes(2, 6), Bytes(2, 6)), Overlap::kSame);
  const auto words = Tensor::Wrap(DType::kFloat16, ShapeOf({2}), buffer_ + 2);
  EXPECT_EQ(OverlapOf(Bytes(2, 6), *words), Overlap::kSame);
}

TEST_F(OverlapTest, StretchesThatShareSomeBytesOverlapInPart) {
  for (const auto& other : {Bytes(1, 3), Bytes(5, 7), Bytes(3, 5), Bytes(2, 5),
                            Bytes(3, 6), Bytes(0, 8)}) {
    EXPECT_EQ(OverlapOf(Bytes(2, 6), other), Overlap::kPartial);
    EXPECT_EQ(OverlapOf(other, Bytes(2, 6)), Overlap::kPartial);
  }
}

TEST_F(OverlapTest, NeighboursDoNotOverlap) {
  EXPECT_EQ(OverlapOf(Bytes(2, 4), Bytes(4, 6)), Overlap::kNone);
  EXPECT_EQ(OverlapOf(Bytes(4, 6), Bytes(2, 4)), Overlap::kNone);
}

TEST_F(OverlapTest, WhatHasNoBytesOverlapsNothing) {
  EXPECT_EQ(OverlapOf(Bytes(3, 3), Bytes(2, 6)), Overlap::kNone);
  EXPECT_EQ(OverlapOf(Bytes(2, 6), Bytes(3, 3)), Overlap::kNone);
  EXPECT_EQ(OverlapOf(Bytes(3, 3), Bytes(3, 3)), Overlap::kNone);
  EXPECT_EQ(OverlapOf(Tensor(), Bytes(2, 6)), Overlap::kNone);
  EXPECT_EQ(OverlapOf(Tensor(), Tensor()), Overlap::kNone);
}

}  // namespace tensor_test
}  // namespace tutti
