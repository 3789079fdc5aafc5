// Tensors, shapes, segments, element types and devices.

#include "tutti/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "framework/collective/params_test_data.h"
#include "framework/tensor/small_floats.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/reduction.h"

namespace tutti {
namespace tensor_test {

using absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

// ---- Tensors, shapes, segments and element types ----

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
    auto tensor = Tensor::Allocate(dtype, ShapeOf({3, 5})).value();
    EXPECT_TRUE(tensor.is_set());
    EXPECT_EQ(tensor.dtype(), dtype);
    EXPECT_EQ(tensor.num_elements(), 15);
    EXPECT_EQ(tensor.size_bytes(), 15 * SizeOf(dtype));
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(tensor.data()) % Tensor::kAlignmentBytes,
        0u);
    std::memset(tensor.mutable_data(), 0x5a, tensor.size_bytes());
  }
}

TEST_F(TensorTest, AllocatesNothingForAnEmptyShape) {
  const auto tensor =
      Tensor::Allocate(DType::kFloat64, ShapeOf({3, 0})).value();
  EXPECT_TRUE(tensor.is_set());
  EXPECT_EQ(tensor.size_bytes(), 0u);
}

TEST_F(TensorTest, MoreMemoryThanThereIsIsResourceExhausted) {
  EXPECT_THAT(Tensor::Allocate(DType::kUint8, ShapeOf({int64_t{1} << 62})),
              IsResourceExhausted("uint8[4611686018427387904]",
                                  "4611686018427387904 bytes"));
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
  const auto is_invalid = IsInvalidArgument("77");
  EXPECT_THAT(SizeInBytes(dtype, shape), is_invalid);
  EXPECT_THAT(Tensor::Wrap(dtype, shape, data), is_invalid);
  EXPECT_THAT(Tensor::Allocate(dtype, shape), is_invalid);
}

TEST_F(TensorTest, WrapAdoptsTheMemoryWithoutACopy) {
  auto tensor = WrapFloats(ShapeOf({3, 4})).value();
  EXPECT_EQ(tensor.data(), reinterpret_cast<const std::byte*>(floats_));
  EXPECT_EQ(tensor.size_bytes(), sizeof(floats_));
  const float value = 42;
  std::memcpy(tensor.mutable_data(), &value, sizeof(value));
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
              IsInvalidArgument("64"));
  EXPECT_EQ(num_deletions_, 1);
  EXPECT_THAT(
      Tensor::Wrap(DType::kFloat32, ShapeOf({3}), nullptr, CountDeletions()),
      IsInvalidArgument("null"));
  EXPECT_EQ(num_deletions_, 2);
}

TEST_F(TensorTest, ADeleterIsNotNeeded) {
  const auto tensor =
      Tensor::Wrap(DType::kFloat32, ShapeOf({12}), floats_).value();
  Tensor copy;
  copy = tensor;
  EXPECT_EQ(copy.data(), tensor.data());
}

TEST_F(TensorTest, ANullBufferIsInvalidAndItsSizeShown) {
  EXPECT_THAT(Tensor::Wrap(DType::kFloat32, ShapeOf({2, 3}), nullptr),
              IsInvalidArgument("null", "float32[2,3]", "24 bytes"));
}

TEST_F(TensorTest, ANullBufferWithoutElementsIsFine) {
  const auto tensor =
      Tensor::Wrap(DType::kFloat32, ShapeOf({0, 3}), nullptr, CountDeletions())
          .value();
  EXPECT_TRUE(tensor.is_set());
  EXPECT_EQ(tensor.size_bytes(), 0u);
  EXPECT_THAT(tensor.Slice(0, 0), IsOk());
}

TEST_F(TensorTest, MisalignedMemoryWorks) {
  alignas(8) std::byte bytes[1 + 3 * sizeof(double)] = {};
  auto tensor = Tensor::Wrap(DType::kFloat64, ShapeOf({3}), bytes + 1).value();
  EXPECT_EQ(tensor.data(), bytes + 1);
  const auto second = tensor.Slice(1, 2).value();
  EXPECT_EQ(second.data(), bytes + 9);
}

TEST_F(TensorTest, SlicesShareTheMemory) {
  const auto tensor = WrapFloats(ShapeOf({3, 4})).value();
  const auto rows = tensor.Slice(1, 3).value();
  EXPECT_EQ(rows.shape(), ShapeOf({2, 4}));
  EXPECT_EQ(rows.data(), reinterpret_cast<const std::byte*>(floats_ + 4));
  const auto row = rows.Slice(1, 2).value();
  EXPECT_EQ(row.data(), reinterpret_cast<const std::byte*>(floats_ + 8));
}

TEST_F(TensorTest, ASliceKeepsTheMemoryAlive) {
  Tensor slice;
  {
    const auto tensor = WrapFloats(ShapeOf({3, 4})).value();
    slice = *tensor.Slice(2, 2);
  }
  EXPECT_EQ(num_deletions_, 0);
  slice = Tensor();
  EXPECT_EQ(num_deletions_, 1);
}

TEST_F(TensorTest, ASliceOutsideTheFirstDimensionIsInvalidAndShown) {
  const auto tensor = WrapFloats(ShapeOf({3, 4})).value();
  for (const auto& [begin, end] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 2}, {0, 4}, {2, 1}, {4, 4}}) {
    EXPECT_THAT(
        tensor.Slice(begin, end),
        IsInvalidArgument(std::to_string(begin), std::to_string(end), "[3,4]"));
  }
}

TEST_F(TensorTest, AScalarCannotBeSliced) {
  const auto scalar = WrapFloats(TensorShape());
  ASSERT_THAT(scalar, IsOk());
  EXPECT_THAT(scalar->Slice(0, 1), IsInvalidArgument("scalar"));
  EXPECT_THAT(Tensor().Slice(0, 1), Not(IsOk()));
}

TEST_F(TensorTest, ReshapingSharesTheMemory) {
  auto tensor = WrapFloats(ShapeOf({3, 4})).value();
  const auto flat = tensor.Reshaped(ShapeOf({12})).value();
  EXPECT_EQ(flat.data(), tensor.data());
  EXPECT_EQ(flat.shape(), ShapeOf({12}));
  tensor = Tensor();
  EXPECT_EQ(num_deletions_, 0);
}

TEST_F(TensorTest, ReshapingToAnotherNumberOfElementsIsInvalidAndShown) {
  const auto tensor = WrapFloats(ShapeOf({3, 4})).value();
  EXPECT_THAT(tensor.Reshaped(ShapeOf({5, 2})),
              IsInvalidArgument("[3,4] (12 elements)", "[5,2] (10 elements)"));
}

TEST_F(TensorTest, WhatIsNotSetCannotBeReshaped) {
  EXPECT_THAT(Tensor().Reshaped(TensorShape()), IsInvalidArgument("not set"));
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

constexpr int64_t kHuge = int64_t{1} << 40;

TEST(TensorShapeTest, AScalarHasOneElement) {
  const TensorShape scalar;
  EXPECT_EQ(scalar.num_dims(), 0);
  EXPECT_EQ(scalar.num_elements(), 1);
  EXPECT_EQ(scalar.ToString(), "[]");
  const auto created = TensorShape::Create({}).value();
  EXPECT_EQ(created, scalar);
}

TEST(TensorShapeTest, CountsTheElements) {
  const auto shape = TensorShape::Create({2, 3, 5}).value();
  EXPECT_EQ(shape.num_elements(), 30);
  EXPECT_EQ(shape.dim(1), 3);
  EXPECT_THAT(shape.dims(), ElementsAre(2, 3, 5));
  EXPECT_EQ(shape.ToString(), "[2,3,5]");
}

TEST(TensorShapeTest, ANegativeDimensionIsInvalidAndShown) {
  EXPECT_THAT(TensorShape::Create({2, -3}), IsInvalidArgument("[2,-3]"));
}

TEST(TensorShapeTest, MoreElementsThan64BitsCountAreInvalidAndShown) {
  EXPECT_THAT(TensorShape::Create({kHuge, kHuge}),
              IsInvalidArgument("[1099511627776,1099511627776]"));
  EXPECT_THAT(TensorShape::Create({std::numeric_limits<int64_t>::max(), 2}),
              IsInvalidArgument("64 bits"));
}

TEST(TensorShapeTest, AsManyElementsAs64BitsCountAreFine) {
  const auto shape =
      TensorShape::Create({std::numeric_limits<int64_t>::max(), 1}).value();
  EXPECT_EQ(shape.num_elements(), std::numeric_limits<int64_t>::max());
}

TEST(TensorShapeTest, AZeroDimensionMakesItEmpty) {
  const auto shape = TensorShape::Create({7, 0, 3}).value();
  EXPECT_EQ(shape.num_elements(), 0);
  EXPECT_EQ(shape.dim(2), 3);
}

// An empty tensor's row size is also used in computations.
TEST(TensorShapeTest, TheOtherDimensionsOfAnEmptyShapeMustFit64Bits) {
  for (const auto& dims : {std::vector<int64_t>{0, kHuge, kHuge},
                           {kHuge, kHuge, 0},
                           {kHuge, 0, kHuge}}) {
    EXPECT_THAT(TensorShape::Create(dims), IsInvalidArgument("64 bits"));
  }
}

TEST(TensorShapeTest, AVectorHasOneDimension) {
  EXPECT_EQ(TensorShape::Vector(5).num_elements(), 5);
  EXPECT_THAT(TensorShape::Vector(5).dims(), ElementsAre(5));
  EXPECT_EQ(TensorShape::Vector(0).num_elements(), 0);
}

TEST(TensorShapeTest, AVectorOfNegativeSizeIsEmpty) {
  EXPECT_EQ(TensorShape::Vector(-5), TensorShape::Vector(0));
}

TEST(TensorShapeTest, TheFirstDimensionMayBeReplaced) {
  const auto shape = TensorShape::Create({2, 3}).value();
  const auto taller = shape.WithFirstDim(7).value();
  EXPECT_THAT(taller.dims(), ElementsAre(7, 3));
  EXPECT_EQ(taller.num_elements(), 21);
  EXPECT_THAT(shape.dims(), ElementsAre(2, 3));
}

TEST(TensorShapeTest, TheReplacedDimensionIsChecked) {
  const auto shape = TensorShape::Create({2, kHuge}).value();
  EXPECT_THAT(shape.WithFirstDim(-1), IsInvalidArgument("[-1,"));
  EXPECT_THAT(shape.WithFirstDim(kHuge), IsInvalidArgument("64 bits"));
  EXPECT_THAT(TensorShape().WithFirstDim(1), IsInvalidArgument("scalar"));
}

TEST(TensorShapeTest, ShapesAreEqualIfTheirDimensionsAre) {
  EXPECT_EQ(*TensorShape::Create({6}), TensorShape::Vector(6));
  EXPECT_FALSE(*TensorShape::Create({2, 3}) == *TensorShape::Create({3, 2}));
  EXPECT_FALSE(*TensorShape::Create({1}) == TensorShape());
}

Tensor Floats(const std::vector<float>& values) {
  Tensor tensor = *Tensor::Allocate(
      DType::kFloat32,
      TensorShape::Vector(static_cast<int64_t>(values.size())));
  std::copy(values.begin(), values.end(),
            reinterpret_cast<float*>(tensor.mutable_data()));
  return tensor;
}

void ExpectRefused(std::vector<SegmentList::Segment> segments,
                   const std::string& why) {
  EXPECT_THAT(SegmentList::Create(std::move(segments)).status(),
              IsInvalidArgument(why));
}

TEST(SegmentListTest, WhatIsNotAListOfTensorsIsRefused) {
  const Tensor two = Floats({1, 2});
  const Tensor three = Floats({1, 2, 3});
  const Tensor whole = *Tensor::Allocate(DType::kInt32, TensorShape::Vector(2));
  ExpectRefused({}, "a list of segments has none");
  ExpectRefused({{two, two}, {Tensor(), two}},
                "segment 1 of 2: the input is not set");
  ExpectRefused({{two, Tensor()}}, "segment 0 of 1: the output is not set");
  ExpectRefused({{two, three}},
                "segment 0 of 1: the input has 2 elements, the output 3");
  ExpectRefused({{two, two}, {whole, whole}},
                "segment 1 of 2: the input is int32, the output int32, wanted "
                "float32");
  ExpectRefused({{*three.Slice(0, 2), *three.Slice(1, 3)}},
                "segment 0 of 1: input and output overlap in part");
}

TEST(SegmentListTest, WhatIsWrittenOverlapsNoOtherSegment) {
  const std::string why =
      "segments 0 and 2 of 3 overlap, and one of them is written there";
  const Tensor all = Floats({1, 2, 3, 4, 5, 6, 7, 8});
  const auto part = [&](int64_t begin, int64_t end) {
    return *all.Slice(begin, end);
  };
  const auto apart = [] { return Floats({0, 0}); };
  // Overlaps of two outputs, of output and input, and of input and output.
  ExpectRefused(
      {{apart(), part(0, 2)}, {apart(), apart()}, {apart(), part(1, 3)}}, why);
  ExpectRefused(
      {{apart(), part(2, 4)}, {apart(), apart()}, {part(1, 3), apart()}}, why);
  ExpectRefused(
      {{part(0, 2), apart()}, {apart(), apart()}, {part(1, 3), part(1, 3)}},
      why);
  // Overlap with a long range, hidden behind a short one.
  ExpectRefused({{part(0, 6), Floats({0, 0, 0, 0, 0, 0})},
                 {part(1, 2), Floats({0})},
                 {apart(), part(4, 6)}},
                why);
  EXPECT_THAT(SegmentList::Create({{part(0, 2), part(2, 4)},
                                   {part(0, 2), part(4, 6)},
                                   {part(6, 8), part(6, 8)}})
                  .status(),
              IsOk());
}

TEST(SegmentListTest, PiecesLieOneAfterTheOther) {
  const auto list = *SegmentList::Create({{Floats({1, 2}), Floats({0, 0})},
                                          {Floats({}), Floats({})},
                                          {Floats({3}), Floats({0})}});
  EXPECT_EQ(list->num_elements(), 3);
  EXPECT_EQ(list->num_bytes(), 12);
  ASSERT_THAT(list->pieces(), SizeIs(2));
  EXPECT_EQ(list->pieces()[1].begin, 8);
  EXPECT_EQ(list->pieces()[1].end, 12);
}

// Numbers on the wire: no line of TUTTI_DTYPES may move.
TEST(DTypeTest, CodesStay) {
  constexpr DType kCodes[] = {
      DType::kFloat16,   DType::kBFloat16,     DType::kFloat32,
      DType::kFloat64,   DType::kInt8,         DType::kUint8,
      DType::kInt32,     DType::kInt64,        DType::kBool,
      DType::kInt16,     DType::kUint16,       DType::kUint32,
      DType::kUint64,    DType::kFloat8E4M3FN, DType::kFloat8E5M2,
      DType::kComplex64, DType::kComplex128};
  for (size_t i = 0; i < std::size(kCodes); ++i) {
    EXPECT_EQ(static_cast<size_t>(kCodes[i]), i);
    EXPECT_EQ(kAllDTypes[i], kCodes[i]);
  }
}

TEST(DTypeTest, EveryTableCoversEveryDType) {
  const auto sizes = ForEachDType([](auto element) { return sizeof(element); });
  ASSERT_EQ(sizes.size(), kAllDTypes.size());
  std::set<absl::string_view> names;
  for (DType dtype : kAllDTypes) {
    EXPECT_TRUE(names.insert(Name(dtype)).second) << Name(dtype);
    EXPECT_EQ(SizeOf(dtype), sizes[static_cast<size_t>(dtype)]);
    EXPECT_EQ(VisitDType(dtype, [](auto element) { return sizeof(element); }),
              SizeOf(dtype));
    EXPECT_EQ(IsFloating(dtype) + IsInteger(dtype) + IsComplex(dtype) +
                  (dtype == DType::kBool),
              1)
        << Name(dtype);
  }
}

// Names and sizes as in NumPy: "int8" has 8 bits, "float8_e5m2" too.
TEST(DTypeTest, NamesHaveTheNumberOfBits) {
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    const absl::string_view name = Name(dtype).substr(0, Name(dtype).find('_'));
    EXPECT_TRUE(absl::EndsWith(name, absl::StrCat(8 * SizeOf(dtype))))
        << Name(dtype);
  }
}

TEST(DTypeTest, EveryNameParsesBack) {
  for (DType dtype : kAllDTypes) {
    ASSERT_TRUE(ParseDType(Name(dtype)).ok());
    EXPECT_EQ(*ParseDType(Name(dtype)), dtype);
  }
}

TEST(DTypeTest, UnknownNameListsTheKnownOnes) {
  const auto parsed = ParseDType("float8");
  EXPECT_THAT(parsed, IsInvalidArgument("float8", "bfloat16"));
}

TEST(DTypeTest, NumberThatNamesNoneIsNotValidAndHasNoSize) {
  for (DType dtype : kAllDTypes) EXPECT_TRUE(IsValid(dtype));
  for (int number = kAllDTypes.size(); number < 256; ++number) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_FALSE(IsValid(dtype));
    EXPECT_EQ(SizeOf(dtype), 0u);
    EXPECT_EQ(Name(dtype), "invalid dtype");
    EXPECT_FALSE(IsInteger(dtype) || IsFloating(dtype));
  }
  EXPECT_THAT(std::string(InvalidDType(static_cast<DType>(77)).message()),
              testing::HasSubstr("77"));
}

TEST(DTypeTest, ComplexElementsHaveTwoParts) {
  EXPECT_EQ(PartOf(DType::kComplex64), DType::kFloat32);
  EXPECT_EQ(PartOf(DType::kComplex128), DType::kFloat64);
  for (DType dtype : kAllDTypes) {
    EXPECT_EQ(SizeOf(dtype), SizeOf(PartOf(dtype)) * (IsComplex(dtype) ? 2 : 1))
        << Name(dtype);
  }
}

TEST(DTypeTest, BoolIsNeitherIntegerNorFloating) {
  EXPECT_FALSE(IsInteger(DType::kBool));
  EXPECT_FALSE(IsFloating(DType::kBool));
  EXPECT_TRUE(IsInteger(DType::kInt64));
  EXPECT_TRUE(IsFloating(DType::kFloat16));
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t BitsOf(float value) { return std::bit_cast<uint32_t>(value); }

// A 16-bit format, with a reference that shares nothing with the code under
// test. The reference computes values by definition, in double, and rounds by a
// search among them.
struct Format {
  std::string name;
  int exponent_bits, mantissa_bits;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint16_t infinity() const {
    return static_cast<uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);
  }
  uint16_t quiet_bit() const {
    return static_cast<uint16_t>(1 << (mantissa_bits - 1));
  }
  bool IsNaN(uint16_t code) const { return (code & 0x7FFF) > infinity(); }

  // Value of a code without sign. Infinity gets the power of two after the
  // largest number, which is where rounding reaches it.
  double MagnitudeOf(uint16_t code) const {
    const int exponent = code >> mantissa_bits;
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    if (exponent == 0) {
      return std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    }
    return std::ldexp(mantissa + (1 << mantissa_bits),
                      exponent - bias() - mantissa_bits);
  }
};

// Returns the code in [0, infinity] nearest to `magnitude`; of two, the even
// one.
uint16_t NearestCode(const Format& format, double magnitude) {
  int low = 0, high = format.infinity();
  while (low < high) {  // Finds the first code >= `magnitude`.
    const int middle = (low + high) / 2;
    if (format.MagnitudeOf(static_cast<uint16_t>(middle)) < magnitude) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return 0;
  const auto above = static_cast<uint16_t>(low);
  const auto below = static_cast<uint16_t>(low - 1);
  const double to_above = format.MagnitudeOf(above) - magnitude;
  const double to_below = magnitude - format.MagnitudeOf(below);
  if (to_above == to_below) return above % 2 == 0 ? above : below;
  return to_above < to_below ? above : below;
}

uint16_t ReferenceNarrow(const Format& format, float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  return sign | NearestCode(format, std::abs(static_cast<double>(value)));
}

class Float16Test : public testing::TestWithParam<Format> {
 protected:
  const Format& format() const { return GetParam(); }

  void ExpectNarrowsToNearest(float value) const {
    for (const float signed_value : {value, -value}) {
      ASSERT_EQ(format().narrow(signed_value),
                ReferenceNarrow(format(), signed_value))
          << signed_value << " = 0x" << std::hex << BitsOf(signed_value);
    }
  }
};

TEST_P(Float16Test, WideningIsExactForEveryCode) {
  for (int magnitude = 0; magnitude < format().infinity(); ++magnitude) {
    const auto code = static_cast<uint16_t>(magnitude);
    ASSERT_EQ(format().widen(code), format().MagnitudeOf(code)) << code;
    ASSERT_EQ(format().widen(code | 0x8000), -format().MagnitudeOf(code));
    ASSERT_FALSE(std::signbit(format().widen(code)));
    ASSERT_TRUE(std::signbit(format().widen(code | 0x8000)));
  }
  EXPECT_EQ(format().widen(format().infinity()), kInfinity);
  EXPECT_EQ(format().widen(format().infinity() | 0x8000), -kInfinity);
}

TEST_P(Float16Test, EveryCodeRoundTripsAndOnlyNaNsChangeByBecomingQuiet) {
  for (int bits = 0; bits <= 0xFFFF; ++bits) {
    const auto code = static_cast<uint16_t>(bits);
    const uint16_t quieted =
        format().IsNaN(code) ? code | format().quiet_bit() : code;
    ASSERT_EQ(format().narrow(format().widen(code)), quieted) << bits;
    ASSERT_EQ(std::isnan(format().widen(code)), format().IsNaN(code));
  }
}

TEST_P(Float16Test, NeighboursMidpointsAndTheirNeighboursRoundToNearestEven) {
  for (int code = 0; code < format().infinity(); ++code) {
    const double lower = format().MagnitudeOf(static_cast<uint16_t>(code));
    const double upper = format().MagnitudeOf(static_cast<uint16_t>(code + 1));
    const auto middle = static_cast<float>((lower + upper) / 2);
    ASSERT_EQ(static_cast<double>(middle), (lower + upper) / 2);
    for (const float value :
         {static_cast<float>(lower), std::nextafter(middle, 0.0f), middle,
          std::nextafter(middle, kInfinity)}) {
      ExpectNarrowsToNearest(value);
    }
  }
}

TEST_P(Float16Test, RandomFloatsRoundToNearestEven) {
  std::mt19937 random(20240229);
  for (int i = 0; i < 1'000'000; ++i) {
    const float value = FloatOf(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) ExpectNarrowsToNearest(value);
  }
}

TEST_P(Float16Test, FloatsOutsideTheRangeBecomeInfinityOrZero) {
  EXPECT_EQ(format().narrow(kInfinity), format().infinity());
  EXPECT_EQ(format().narrow(-kInfinity), format().infinity() | 0x8000);
  EXPECT_EQ(format().narrow(std::numeric_limits<float>::max()),
            format().infinity());
  EXPECT_EQ(format().narrow(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(format().narrow(-std::numeric_limits<float>::denorm_min()), 0x8000);
  EXPECT_EQ(format().narrow(-0.0f), 0x8000);
}

TEST_P(Float16Test, NaNStaysAQuietNaNOfItsSign) {
  for (const uint32_t nan :
       {0x7F800001u, 0x7F812345u, 0x7FBFFFFFu, 0x7FC00000u, 0x7FFFFFFFu}) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const uint16_t code = format().narrow(FloatOf(sign | nan));
      EXPECT_TRUE(format().IsNaN(code));
      EXPECT_EQ(code & format().quiet_bit(), format().quiet_bit());
      EXPECT_EQ(code & 0x8000, sign >> 16);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Formats, Float16Test,
    testing::Values(Format{"Float16", 5, 10, Float16ToFloat, FloatToFloat16},
                    Format{"BFloat16", 8, 7, BFloat16ToFloat, FloatToBFloat16}),
    [](const auto& info) { return info.param.name; });

// Value of a code without sign, by the definition of the formats.
double Float8MagnitudeOf(int code, int mantissa_bits, int bias) {
  const int exponent = code >> mantissa_bits;
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return std::ldexp(mantissa + (1 << mantissa_bits),
                    exponent - bias - mantissa_bits);
}

// Expects that each code is read by its definition, and that floats go to the
// nearest code, of two to the even one; beyond the largest to that.
template <class Bits>
void ExpectFloat8() {
  constexpr int kMantissaBits = Bits::kMantissaBits;
  const auto value_of = [](int code) {
    return Float8MagnitudeOf(code, kMantissaBits, Bits::kBias);
  };
  const auto expect = [](float value, int code) {
    EXPECT_EQ(FloatToFloat8<Bits>(value), code) << value;
    EXPECT_EQ(FloatToFloat8<Bits>(-value), code | 0x80) << value;
  };
  for (int code = 0; code <= Bits::kLargest; ++code) {
    const double value = value_of(code);
    EXPECT_EQ(Float8ToFloat<Bits>(static_cast<uint8_t>(code)), value) << code;
    EXPECT_EQ(Float8ToFloat<Bits>(static_cast<uint8_t>(code | 0x80)), -value);
    EXPECT_TRUE(
        std::signbit(Float8ToFloat<Bits>(static_cast<uint8_t>(code | 0x80))));
    expect(static_cast<float>(value), code);
    if (code == Bits::kLargest) continue;
    const auto middle = static_cast<float>((value + value_of(code + 1)) / 2);
    expect(std::nextafter(middle, 0.0f), code);
    expect(middle, code % 2 == 0 ? code : code + 1);
    expect(std::nextafter(middle, kInfinity), code + 1);
  }
  expect(std::numeric_limits<float>::max(), Bits::kLargest);
  expect(kInfinity, Bits::kLargest);
  expect(std::numeric_limits<float>::denorm_min(), 0);
  expect(FloatOf(0x7F800001), Bits::kNaN);
  expect(FloatOf(0x7FC00000), Bits::kNaN);
}

TEST(Float8Test, E4M3FNIsReadByItsDefinitionAndRoundedToNearestEven) {
  ExpectFloat8<E4M3FN>();
  EXPECT_EQ(Float8ToFloat<E4M3FN>(E4M3FN::kLargest), 448);
  EXPECT_TRUE(std::isnan(Float8ToFloat<E4M3FN>(0x7F)));
  EXPECT_TRUE(std::isnan(Float8ToFloat<E4M3FN>(0xFF)));
}

TEST(Float8Test, E5M2IsReadByItsDefinitionAndRoundedToNearestEven) {
  ExpectFloat8<E5M2>();
  EXPECT_EQ(Float8ToFloat<E5M2>(E5M2::kLargest), 57344);
  EXPECT_EQ(Float8ToFloat<E5M2>(0x7C), kInfinity);
  EXPECT_EQ(Float8ToFloat<E5M2>(0xFC), -kInfinity);
  for (const uint8_t nan : {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}) {
    EXPECT_TRUE(std::isnan(Float8ToFloat<E5M2>(nan)));
  }
}

TEST(Float16ConstexprTest, ConversionsAreConstantExpressions) {
  static_assert(FloatToFloat8<E4M3FN>(1.0f) == 0x38);
  static_assert(Float8ToFloat<E5M2>(0x3D) == 1.25f);
  static_assert(FloatToFloat16(1.0f) == 0x3C00);
  static_assert(FloatToFloat16(65519.0f) == 0x7BFF);
  static_assert(FloatToFloat16(65520.0f) == 0x7C00);
  static_assert(Float16ToFloat(0x0001) == 0x1p-24f);
  static_assert(FloatToBFloat16(1.0f) == 0x3F80);
  static_assert(BFloat16ToFloat(0x4049) == 3.140625f);
}

constexpr ReductionKind kBitOperations[] = {
    ReductionKind::kBand, ReductionKind::kBor, ReductionKind::kBxor};
constexpr ReductionKind kArithmetic[] = {
    ReductionKind::kSum, ReductionKind::kProd, ReductionKind::kMin,
    ReductionKind::kMax};

TEST(ReductionKindTest, EveryNameParsesBack) {
  for (ReductionKind kind : kAllReductionKinds) {
    ASSERT_TRUE(ParseReductionKind(Name(kind)).ok()) << Name(kind);
    EXPECT_EQ(*ParseReductionKind(Name(kind)), kind);
  }
}

TEST(ReductionKindTest, UnknownNameListsTheKnownOnes) {
  const auto parsed = ParseReductionKind("avg");
  EXPECT_THAT(parsed, IsInvalidArgument("avg", "sum, prod", "bxor"));
}

TEST(ReductionKindTest, IntegersSupportEveryKind) {
  for (DType dtype : kAllDTypes) {
    if (!IsInteger(dtype)) continue;
    for (ReductionKind kind : kAllReductionKinds) {
      EXPECT_TRUE(CheckSupported(kind, dtype).ok())
          << Name(kind) << " " << Name(dtype);
    }
  }
}

TEST(ReductionKindTest, FloatsSupportArithmeticButNoBitOperation) {
  for (DType dtype : kAllDTypes) {
    if (!IsFloating(dtype)) continue;
    for (ReductionKind kind : kArithmetic) {
      EXPECT_TRUE(CheckSupported(kind, dtype).ok());
    }
    for (ReductionKind kind : kBitOperations) {
      EXPECT_EQ(CheckSupported(kind, dtype).code(),
                absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST(ReductionKindTest, ComplexNumbersSupportSumAndProductAlone) {
  for (ReductionKind kind : kAllReductionKinds) {
    const bool is_arithmetic =
        kind == ReductionKind::kSum || kind == ReductionKind::kProd;
    for (DType dtype : {DType::kComplex64, DType::kComplex128}) {
      EXPECT_EQ(CheckSupported(kind, dtype).ok(), is_arithmetic);
    }
  }
}

TEST(ReductionKindTest, BoolSupportsAllButSumAndProduct) {
  for (ReductionKind kind : kAllReductionKinds) {
    const bool is_arithmetic =
        kind == ReductionKind::kSum || kind == ReductionKind::kProd;
    EXPECT_EQ(CheckSupported(kind, DType::kBool).code(),
              is_arithmetic ? absl::StatusCode::kInvalidArgument
                            : absl::StatusCode::kOk);
  }
}

TEST(ReductionKindTest, NumberThatNamesNoneIsNotValidAndSupportsNothing) {
  for (ReductionKind kind : kAllReductionKinds) {
    EXPECT_TRUE(IsValid(kind));
    EXPECT_EQ(CheckSupported(kind, static_cast<DType>(77)).code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (int number = kAllReductionKinds.size(); number < 256; ++number) {
    const auto kind = static_cast<ReductionKind>(number);
    EXPECT_FALSE(IsValid(kind));
    EXPECT_EQ(Name(kind), "invalid reduction");
    const absl::Status status = CheckSupported(kind, DType::kInt32);
    EXPECT_THAT(status, IsInvalidArgument(std::to_string(number)));
  }
}

TEST(ReductionKindTest, UnsupportedPairIsNamedInTheError) {
  EXPECT_THAT(
      std::string(
          CheckSupported(ReductionKind::kBxor, DType::kBFloat16).message()),
      AllOf(HasSubstr("bxor"), HasSubstr("bfloat16")));
  EXPECT_THAT(
      std::string(CheckSupported(ReductionKind::kSum, DType::kBool).message()),
      AllOf(HasSubstr("sum"), HasSubstr("bool")));
}

std::unique_ptr<Device> Cpu(int index) {
  return std::make_unique<CpuDevice>(
      DeviceAttributes{.name = {"worker", 0, 0, "CPU", index}});
}

std::vector<std::string> NamesOf(const DeviceManager& manager) {
  std::vector<std::string> names;
  for (const Device* device : manager.devices()) {
    names.push_back(device->full_name());
  }
  return names;
}

class DeviceManagerTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<DeviceManager>> CreateCpu(
      int num_tasks, int devices_per_task) {
    return DeviceManager::CreateCpu(num_tasks, devices_per_task,
                                    environment_.get().random);
  }

  SimulatedEnvironment environment_{/*seed=*/1};
};

TEST_F(DeviceManagerTest, FindsItsDevicesByName) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(Cpu(1));
  devices.push_back(Cpu(0));
  const Device* const first = devices[0].get();
  const auto manager = DeviceManager::Create(std::move(devices)).value();
  const auto found =
      manager->Find("/job:worker/replica:0/task:0/device:CPU:1").value();
  EXPECT_EQ(found, first);
}

TEST_F(DeviceManagerTest, KeepsTheOrderInWhichItWasGivenThem) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(Cpu(1));
  devices.push_back(Cpu(0));
  const auto manager = DeviceManager::Create(std::move(devices)).value();
  EXPECT_THAT(NamesOf(*manager),
              ElementsAre("/job:worker/replica:0/task:0/device:CPU:1",
                          "/job:worker/replica:0/task:0/device:CPU:0"));
}

TEST_F(DeviceManagerTest, NoDeviceIsInvalid) {
  EXPECT_THAT(DeviceManager::Create({}), IsInvalidArgument("needs a device"));
}

TEST_F(DeviceManagerTest, ANullDeviceIsInvalidAndItsPlaceShown) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(Cpu(0));
  devices.push_back(nullptr);
  EXPECT_THAT(DeviceManager::Create(std::move(devices)),
              IsInvalidArgument("device 1 of 2"));
}

TEST_F(DeviceManagerTest, TwoDevicesOfOneNameAreAlreadyExistsAndNamed) {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(Cpu(0));
  devices.push_back(Cpu(0));
  EXPECT_THAT(DeviceManager::Create(std::move(devices)),
              IsAlreadyExists("/job:worker/replica:0/task:0/device:CPU:0"));
}

TEST_F(DeviceManagerTest, AnUnknownNameIsNotFoundAndNamesSomeOfTheKnown) {
  const auto manager = CreateCpu(2, 16).value();
  EXPECT_THAT(manager->Find("CPU:0"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("\"CPU:0\""), HasSubstr("has 32"),
                             HasSubstr("/task:0/device:CPU:7, ..."),
                             Not(HasSubstr("CPU:8")))));
}

TEST_F(DeviceManagerTest, FewKnownDevicesAreAllNamed) {
  const auto manager = CreateCpu(1, 2).value();
  EXPECT_THAT(manager->Find("x"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("CPU:0"), HasSubstr("CPU:1"),
                             Not(HasSubstr("...")))));
}

TEST_F(DeviceManagerTest, MakesTheCpuDevicesOfEachTask) {
  const auto manager = CreateCpu(2, 2).value();
  EXPECT_THAT(NamesOf(*manager),
              ElementsAre("/job:localhost/replica:0/task:0/device:CPU:0",
                          "/job:localhost/replica:0/task:0/device:CPU:1",
                          "/job:localhost/replica:0/task:1/device:CPU:0",
                          "/job:localhost/replica:0/task:1/device:CPU:1"));
  const auto& devices = manager->devices();
  EXPECT_EQ(devices[0]->attributes().incarnation,
            devices[1]->attributes().incarnation);
  EXPECT_NE(devices[0]->attributes().incarnation,
            devices[2]->attributes().incarnation);
}

TEST_F(DeviceManagerTest, ACountBelowOneIsInvalidAndShown) {
  EXPECT_THAT(CreateCpu(0, 4), IsInvalidArgument("0 tasks with 4 devices"));
  EXPECT_THAT(CreateCpu(2, -1), IsInvalidArgument("2 tasks with -1 devices"));
}

TEST_F(DeviceManagerTest, NoSourceOfIncarnationsIsInvalid) {
  EXPECT_THAT(DeviceManager::CreateCpu(1, 1, /*random=*/nullptr),
              IsInvalidArgument("random"));
}

TEST_F(DeviceManagerTest, ACpuDeviceAllocatesHostMemory) {
  const auto manager = CreateCpu(1, 1).value();
  const auto tensor =
      manager->devices()[0]->Allocate(DType::kInt32, ShapeOf({2, 3})).value();
  EXPECT_EQ(tensor.size_bytes(), 24u);
}

TEST(DeviceNameTest, ParsesAllParts) {
  const auto name =
      DeviceName::Parse("/job:worker/replica:1/task:23/device:GPU:4").value();
  EXPECT_EQ(name.job, "worker");
  EXPECT_EQ(name.replica, 1);
  EXPECT_EQ(name.task, 23);
  EXPECT_EQ(name.type, "GPU");
  EXPECT_EQ(name.index, 4);
}

TEST(DeviceNameTest, ToStringIsTheInverseOfParse) {
  const std::string text = "/job:worker/replica:0/task:3/device:CPU:1";
  const auto name = DeviceName::Parse(text).value();
  EXPECT_EQ(name.ToString(), text);
  EXPECT_EQ(name, (DeviceName{"worker", 0, 3, "CPU", 1}));
}

TEST(DeviceNameTest, TheTaskIsTheNameWithoutTheDevice) {
  EXPECT_EQ((DeviceName{"worker", 2, 3, "CPU", 1}).TaskName(),
            "/job:worker/replica:2/task:3");
}

class MalformedDeviceNameTest : public testing::TestWithParam<const char*> {};

TEST_P(MalformedDeviceNameTest, IsInvalidAndShownWithTheFormWanted) {
  EXPECT_THAT(DeviceName::Parse(GetParam()),
              IsInvalidArgument('"' + std::string(GetParam()) + '"',
                                "/job:worker/replica:0/task:3/device:CPU:1"));
}

INSTANTIATE_TEST_SUITE_P(
    Names, MalformedDeviceNameTest,
    testing::Values("", "CPU:0", "/job:/replica:0/task:0/device:CPU:0",
                    "job:a/replica:0/task:0/device:CPU:0",
                    "/job:a/replica:0/task:0",
                    "/job:a/replica:0/task:0/device:CPU",
                    "/job:a/replica:0/task:0/device::0",
                    "/job:a/replica:0/task:0/device:CPU:",
                    "/job:a/replica:0/task:0/device:CPU:0:1",
                    "/job:a/replica:0/task:0/device:CPU:0/",
                    "/job:a/task:0/replica:0/device:CPU:0",
                    "/job:a/replica:-1/task:0/device:CPU:0",
                    "/job:a/replica:0/task:x/device:CPU:0",
                    "/job:a/replica:0/task:/device:CPU:0",
                    "/job:a/replica:0/task:99999999999/device:CPU:0",
                    "/job:a/b/replica:0/task:0/device:CPU:0"));

}  // namespace tensor_test
}  // namespace tutti
