// Reductions: the kernels, and the operations of users.

#include "tutti/reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/reduce/reduction_kernels.h"
#include "framework/reduce/reduction_reference_testing.h"
#include "framework/reduce/reduction_test_data.h"
#include "framework/tensor/small_floats.h"
#include "hwy/targets.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace reduction_test {

using ::testing::ElementsAre;
using ::testing::Not;

constexpr size_t kLengths[] = {0,  1,  2,  3,  7,  8,  15,   16,
                               17, 31, 33, 63, 64, 65, 1001, 4095};

constexpr auto kSum = ReductionKind::kSum;
constexpr auto kProd = ReductionKind::kProd;
constexpr auto kMin = ReductionKind::kMin;
constexpr auto kMax = ReductionKind::kMax;

// Copy of some bytes between canaries, at an address `offset` past a multiple
// of 64.
class Guarded {
 public:
  Guarded(const Bytes& content, size_t offset)
      : size_(content.size()), memory_(size_ + 2 * kCanaryBytes, kCanary) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    begin_ = (64 - address % 64) % 64 + offset;
    std::copy(content.begin(), content.end(), data());
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  uint8_t* data() { return memory_.data() + begin_; }
  Bytes content() { return Bytes(data(), data() + size_); }
  bool canaries_are_intact() {
    const auto is_canary = [](uint8_t byte) { return byte == kCanary; };
    return std::all_of(memory_.data(), data(), is_canary) &&
           std::all_of(data() + size_, memory_.data() + memory_.size(),
                       is_canary);
  }

 private:
  static constexpr size_t kCanaryBytes = 128;
  static constexpr uint8_t kCanary = 0xA5;

  const size_t size_;
  size_t begin_;
  Bytes memory_;
};

Bytes ReferenceResult(const ReductionPair& pair, const Bytes& left,
                      const Bytes& right) {
  Bytes into(left.size());
  ReferenceReduce(pair.kind, pair.dtype, left.data(), right.data(), into.data(),
                  left.size() / SizeOf(pair.dtype));
  return into;
}

Bytes BytesOf(const std::vector<uint16_t>& elements) {
  Bytes bytes(elements.size() * sizeof(uint16_t));
  std::memcpy(bytes.data(), elements.data(), bytes.size());
  return bytes;
}

// Names the first element that differs, instead of printing thousands.
void ExpectSameElements(DType dtype, const Bytes& actual,
                        const Bytes& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  const auto [a, e] =
      std::mismatch(actual.begin(), actual.end(), expected.begin());
  if (a == actual.end()) return;
  const size_t byte = a - actual.begin();
  ADD_FAILURE() << "element " << byte / SizeOf(dtype) << " of "
                << actual.size() / SizeOf(dtype) << ": its byte "
                << byte % SizeOf(dtype) << " is " << int{*a} << ", not "
                << int{*e};
}

// Returns the kernels compiled for `target`, or the fallback's.
const ReductionKernels& KernelsFor(int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  const ReductionKernels& kernels = KernelsOfThisCpu();
  hwy::SetSupportedTargetsForTest(0);
  return kernels;
}

// Instruction sets of this CPU, plainest first. Omits sets that would run the
// same kernels as an earlier one.
std::vector<int64_t> TargetsOfThisCpu() {
  std::vector<int64_t> targets;
  absl::flat_hash_set<const ReductionKernels*> seen;
  auto rest = static_cast<uint64_t>(hwy::SupportedTargets());
  while (rest != 0) {
    // A lower bit is a better instruction set.
    const uint64_t target = std::bit_floor(rest);
    if (seen.insert(&KernelsFor(target)).second) targets.push_back(target);
    rest -= target;
  }
  return targets;
}

// Runs once for each instruction set of this CPU. Each must agree with the
// reference to the bit, so all agree with each other.
class ReductionKernelsTest : public testing::TestWithParam<int64_t> {
 protected:
  void Combine(const ReductionPair& pair, const uint8_t* left,
               const uint8_t* right, uint8_t* into, size_t num_elements) {
    const auto& row = kernels_.combine[static_cast<size_t>(pair.kind)];
    row[static_cast<size_t>(pair.dtype)](left, right, into, num_elements);
  }

  Bytes Combine(const ReductionPair& pair, const Bytes& left,
                const Bytes& right) {
    Bytes into(left.size());
    Combine(pair, left.data(), right.data(), into.data(),
            left.size() / SizeOf(pair.dtype));
    return into;
  }

  void Fold(const ReductionPair& pair, const FoldArguments& arguments) {
    const auto& row = kernels_.fold[static_cast<size_t>(pair.kind)];
    row[static_cast<size_t>(pair.dtype)](arguments);
  }

  const ReductionKernels& kernels() const { return kernels_; }

  void Divide(DType dtype, uint8_t* values, size_t num_elements,
              int64_t divisor) {
    kernels_.divide[static_cast<size_t>(dtype)](values, num_elements, divisor);
  }

  template <typename T>
  T CombineOne(const ReductionPair& pair, T left, T right) {
    T into;
    Combine(pair, reinterpret_cast<const uint8_t*>(&left),
            reinterpret_cast<const uint8_t*>(&right),
            reinterpret_cast<uint8_t*>(&into), 1);
    return into;
  }

  template <typename T>
  T DivideOne(DType dtype, T value, int64_t divisor) {
    Divide(dtype, reinterpret_cast<uint8_t*>(&value), 1, divisor);
    return value;
  }

  uint16_t SumOfFloat16(float left, float right) {
    return CombineOne({kSum, DType::kFloat16}, FloatToFloat16(left),
                      FloatToFloat16(right));
  }

 private:
  const ReductionKernels& kernels_ = KernelsFor(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Targets, ReductionKernelsTest,
                         testing::ValuesIn(TargetsOfThisCpu()),
                         [](const auto& info) {
                           return std::string(hwy::TargetName(info.param));
                         });

// Sums of one line of elements may lie in any order.
TEST_P(ReductionKernelsTest, WideningAndNarrowingGiveTheElementsBack) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const auto index = static_cast<size_t>(dtype);
    for (const size_t length : kLengths) {
      const size_t lines = (length + 31) / 32;
      Guarded elements(RandomElements(dtype, length, length), /*offset=*/2);
      Guarded sums(Bytes(lines * 32 * sizeof(float)), /*offset=*/0);
      Guarded back(Bytes(length * 2), /*offset=*/6);
      EXPECT_EQ(kernels().widen[index](elements.data(), sums.data(), length),
                lines * 32);
      kernels().narrow[index](sums.data(), back.data(), length);
      // The same elements, with NaNs as results have them.
      ExpectSameElements(dtype, back.content(),
                         ReferenceResult({kMax, dtype}, elements.content(),
                                         elements.content()));
      EXPECT_TRUE(sums.canaries_are_intact());
      EXPECT_TRUE(back.canaries_are_intact());
    }
  }
}

TEST_P(ReductionKernelsTest, EveryLengthAndAlignmentMatchesTheReference) {
  constexpr size_t kOffsets[][3] = {{0, 0, 0}, {1, 2, 3}, {3, 0, 1}, {2, 1, 2}};
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    for (size_t length : kLengths) {
      const Bytes left = RandomElements(pair.dtype, length, 2 * length);
      const Bytes right = RandomElements(pair.dtype, length, 2 * length + 1);
      const Bytes expected = ReferenceResult(pair, left, right);
      for (const auto& offsets : kOffsets) {
        Guarded a(left, offsets[0]), b(right, offsets[1]);
        Guarded into(Bytes(left.size()), offsets[2]);
        Combine(pair, a.data(), b.data(), into.data(), length);
        ExpectSameElements(pair.dtype, into.content(), expected);
        EXPECT_TRUE(into.canaries_are_intact());
        EXPECT_EQ(a.content(), left);
        EXPECT_EQ(b.content(), right);
      }
    }
  }
}

TEST_P(ReductionKernelsTest, InPlaceMatchesTheReference) {
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    for (size_t length : kLengths) {
      const Bytes left = RandomElements(pair.dtype, length, 2 * length);
      const Bytes right = RandomElements(pair.dtype, length, 2 * length + 1);
      const Bytes expected = ReferenceResult(pair, left, right);
      for (size_t offset = 0; offset < 4; ++offset) {
        Guarded a(left, offset), b(right, offset), both(left, offset);
        Combine(pair, a.data(), right.data(), a.data(), length);
        Combine(pair, left.data(), b.data(), b.data(), length);
        Combine(pair, both.data(), both.data(), both.data(), length);
        ExpectSameElements(pair.dtype, a.content(), expected);
        ExpectSameElements(pair.dtype, b.content(), expected);
        ExpectSameElements(pair.dtype, both.content(),
                           ReferenceResult(pair, left, left));
        EXPECT_TRUE(a.canaries_are_intact());
        EXPECT_TRUE(b.canaries_are_intact());
        EXPECT_TRUE(both.canaries_are_intact());
      }
    }
  }
}

TEST_P(ReductionKernelsTest, SpecialValuesMatchTheReferenceInEitherOrder) {
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    const auto [left, right] = SpecialOperands(pair.dtype);
    const Bytes expected = ReferenceResult(pair, left, right);
    ExpectSameElements(pair.dtype, Combine(pair, left, right), expected);
    ExpectSameElements(pair.dtype, Combine(pair, right, left), expected);
  }
}

TEST_P(ReductionKernelsTest, ResultDoesNotDependOnWhereABufferIsCut) {
  constexpr size_t kNumElements = 2000;
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    const Bytes left = RandomElements(pair.dtype, kNumElements, 1);
    const Bytes right = RandomElements(pair.dtype, kNumElements, 2);
    Bytes pieces(left.size());
    for (size_t begin = 0, length = 1; begin < kNumElements; ++length) {
      const size_t piece = std::min(length, kNumElements - begin);
      const size_t at = begin * SizeOf(pair.dtype);
      Combine(pair, &left[at], &right[at], &pieces[at], piece);
      begin += piece;
    }
    ExpectSameElements(pair.dtype, pieces, Combine(pair, left, right));
  }
}

TEST_P(ReductionKernelsTest, SumsOfEvery16BitCodeMatchTheReference) {
  std::vector<uint16_t> every(0x10000);
  std::iota(every.begin(), every.end(), 0);
  for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    // Covers 64 codes: both signs, the whole range of exponents, various
    // mantissas.
    for (uint32_t chosen = 0; chosen < 0x10000; chosen += 0x0400) {
      const auto code = static_cast<uint16_t>(chosen ^ (chosen >> 6));
      SCOPED_TRACE(absl::StrCat(Name(dtype), " + ", code));
      const Bytes left = BytesOf(every);
      const Bytes right = BytesOf(std::vector<uint16_t>(every.size(), code));
      ExpectSameElements(dtype, Combine({kSum, dtype}, left, right),
                         ReferenceResult({kSum, dtype}, left, right));
    }
  }
}

TEST_P(ReductionKernelsTest, EveryPairOfFloatsOf8BitsMatchesTheReference) {
  Bytes left, right;
  for (int code = 0; code < 0x10000; ++code) {
    left.push_back(static_cast<uint8_t>(code));
    right.push_back(static_cast<uint8_t>(code >> 8));
  }
  for (const ReductionPair& pair : SupportedPairs()) {
    if (SizeOf(pair.dtype) != 1 || !IsFloating(pair.dtype)) continue;
    SCOPED_TRACE(Describe(pair));
    ExpectSameElements(pair.dtype, Combine(pair, left, right),
                       ReferenceResult(pair, left, right));
  }
}

// Buffers of random elements, `num_inputs` in number, which a fold reads and
// may write. Buffer i begins (`offset` + i) % 5 bytes past a multiple of 64.
class ManyBuffers {
 public:
  ManyBuffers(DType dtype, size_t num_inputs, size_t length, size_t offset)
      : length_(length) {
    for (size_t i = 0; i < num_inputs; ++i) {
      contents_.push_back(RandomElements(dtype, length, i + 17 * length));
      inputs_.push_back(
          std::make_unique<Guarded>(contents_.back(), (offset + i) % 5));
    }
  }

  std::vector<const uint8_t*> inputs() {
    std::vector<const uint8_t*> pointers;
    for (const auto& input : inputs_) pointers.push_back(input->data());
    return pointers;
  }
  uint8_t* input(size_t i) { return inputs_[i]->data(); }
  Bytes input_content(size_t i) { return inputs_[i]->content(); }
  const Bytes& original(size_t i) const { return contents_[i]; }

  Bytes Expected(const ReductionPair& pair, int64_t divisor) {
    Bytes expected(contents_[0].size());
    const std::vector<const uint8_t*> pointers = inputs();
    ReferenceReduceMany(pair.kind, pair.dtype, pointers, expected.data(),
                        length_, divisor);
    return expected;
  }

 private:
  const size_t length_;
  std::vector<Bytes> contents_;
  std::vector<std::unique_ptr<Guarded>> inputs_;
};

TEST_P(ReductionKernelsTest, FoldsOfManyBuffersMatchTheReference) {
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    for (const size_t num_inputs : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 17}) {
      for (const size_t length : {0, 1, 7, 16, 33, 65, 200, 601}) {
        const size_t offset = length % 3 * SizeOf(pair.dtype) + num_inputs / 8;
        ManyBuffers buffers(pair.dtype, num_inputs, length, offset);
        const int64_t divisor = IsFloating(pair.dtype) ? 1 + length % 3 : 1;
        const Bytes expected = buffers.Expected(pair, divisor);
        Guarded plain(Bytes(expected.size()), 1);
        Guarded streamed(Bytes(expected.size()), offset);
        // With an even number of inputs, `other` has another alignment modulo a
        // cache line than `streamed`.
        Guarded other(Bytes(expected.size()),
                      offset + (num_inputs % 2 == 0 ? 8 : 0));
        Fold(pair, {.inputs = buffers.inputs(),
                    .outputs = {plain.data()},
                    .streamed = {streamed.data(), other.data()},
                    .num_elements = length,
                    .divisor = divisor});
        for (Guarded* output : {&plain, &streamed, &other}) {
          ExpectSameElements(pair.dtype, output->content(), expected);
          EXPECT_TRUE(output->canaries_are_intact());
        }
        for (size_t i = 0; i < num_inputs; ++i) {
          EXPECT_EQ(buffers.input_content(i), buffers.original(i));
        }
      }
    }
  }
}

TEST_P(ReductionKernelsTest, FoldsInPlaceMatchTheReference) {
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    for (const size_t length : {1, 16, 33, 200, 1001}) {
      ManyBuffers buffers(pair.dtype, 3, length, 0);
      const Bytes expected = buffers.Expected(pair, 1);
      Guarded streamed(Bytes(expected.size()), length % 4 * 8);
      Fold(pair, {.inputs = buffers.inputs(),
                  .outputs = {buffers.input(0), buffers.input(2)},
                  .streamed = {streamed.data()},
                  .num_elements = length});
      ExpectSameElements(pair.dtype, buffers.input_content(0), expected);
      EXPECT_EQ(buffers.input_content(1), buffers.original(1));
      ExpectSameElements(pair.dtype, buffers.input_content(2), expected);
      ExpectSameElements(pair.dtype, streamed.content(), expected);
    }
  }
}

// Some folds are longer than a tile and end within a line.
TEST_P(ReductionKernelsTest, FoldsOfMoreBuffersThanFitSideBySideMatch) {
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    for (const auto& [num_inputs, length] : {std::pair<size_t, size_t>(9, 500),
                                             {13, 7},
                                             {16, 33},
                                             {17, 1001},
                                             {33, 500},
                                             {17, 17'000}}) {
      const int64_t divisor = IsFloating(pair.dtype) ? 3 : 1;
      ManyBuffers buffers(pair.dtype, num_inputs, length, length % 2);
      const Bytes expected = buffers.Expected(pair, divisor);
      // All members work in place, except one that keeps its input.
      std::vector<uint8_t*> outputs;
      for (size_t i = 1; i < num_inputs; ++i) {
        outputs.push_back(buffers.input(i));
      }
      std::vector<std::unique_ptr<Guarded>> others;
      std::vector<uint8_t*> streamed;
      for (size_t i = 0; i < num_inputs; ++i) {
        others.push_back(
            std::make_unique<Guarded>(Bytes(expected.size()), i == 11 ? 3 : 0));
        streamed.push_back(others.back()->data());
      }
      Fold(pair, {.inputs = buffers.inputs(),
                  .outputs = outputs,
                  .streamed = streamed,
                  .num_elements = length,
                  .divisor = divisor});
      EXPECT_EQ(buffers.input_content(0), buffers.original(0));
      for (size_t i = 1; i < num_inputs; ++i) {
        ExpectSameElements(pair.dtype, buffers.input_content(i), expected);
      }
      for (const auto& other : others) {
        ExpectSameElements(pair.dtype, other->content(), expected);
        EXPECT_TRUE(other->canaries_are_intact());
      }
    }
  }
}

TEST_P(ReductionKernelsTest, CopiesKeepEveryBit) {
  for (const size_t length : {0, 1, 63, 64, 100, 1001}) {
    const Bytes from = RandomElements(DType::kFloat32, length, length);
    Guarded plain(Bytes(from.size()), 3), streamed(Bytes(from.size()), 5);
    const uint8_t* const input = from.data();
    kernels().copy({.inputs = {&input, 1},
                    .outputs = {plain.data()},
                    .streamed = {streamed.data()},
                    .num_elements = from.size()});
    EXPECT_EQ(plain.content(), from);
    EXPECT_EQ(streamed.content(), from);
    EXPECT_TRUE(plain.canaries_are_intact());
    EXPECT_TRUE(streamed.canaries_are_intact());
  }
}

TEST_P(ReductionKernelsTest, FoldsOfEvery16BitCodeAreRoundedOnce) {
  std::vector<uint16_t> every(0x10000);
  std::iota(every.begin(), every.end(), 0);
  const Bytes codes = BytesOf(every);
  for (const ReductionPair& pair : SupportedPairs()) {
    if (SizeOf(pair.dtype) != 2 || !IsFloating(pair.dtype)) continue;
    SCOPED_TRACE(Describe(pair));
    const Bytes others = RandomElements(pair.dtype, every.size(), 1);
    const Bytes more = RandomElements(pair.dtype, every.size(), 2);
    const std::vector<const uint8_t*> inputs = {others.data(), codes.data(),
                                                more.data()};
    Bytes expected(codes.size()), into(codes.size());
    ReferenceReduceMany(pair.kind, pair.dtype, inputs, expected.data(),
                        every.size(), 3);
    Fold(pair, {.inputs = inputs,
                .outputs = {into.data()},
                .num_elements = every.size(),
                .divisor = 3});
    ExpectSameElements(pair.dtype, into, expected);
  }
}

// Literal expectations from here on, so that a mistake in the reference cannot
// hide a mistake in the kernels.

TEST_P(ReductionKernelsTest, IntegerSumsAndProductsWrapAround) {
  constexpr int32_t kMin32 = std::numeric_limits<int32_t>::min();
  constexpr int32_t kMax32 = std::numeric_limits<int32_t>::max();
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(CombineOne<int8_t>({kSum, DType::kInt8}, 127, 1), -128);
  EXPECT_EQ(CombineOne<int8_t>({kProd, DType::kInt8}, -128, -1), -128);
  EXPECT_EQ(CombineOne<int8_t>({kProd, DType::kInt8}, 100, 3), 44);
  EXPECT_EQ(CombineOne<uint8_t>({kSum, DType::kUint8}, 255, 2), 1);
  EXPECT_EQ(CombineOne<uint8_t>({kProd, DType::kUint8}, 255, 255), 1);
  EXPECT_EQ(CombineOne<int32_t>({kSum, DType::kInt32}, kMax32, 1), kMin32);
  EXPECT_EQ(CombineOne<int32_t>({kProd, DType::kInt32}, kMin32, -1), kMin32);
  EXPECT_EQ(CombineOne<int64_t>({kSum, DType::kInt64}, kMin64, -1), kMax64);
  EXPECT_EQ(CombineOne<int64_t>({kProd, DType::kInt64}, kMax64, kMax64), 1);
  EXPECT_EQ(CombineOne<int64_t>({kProd, DType::kInt64}, -3'000'000'000, 7),
            -21'000'000'000);
  EXPECT_EQ(CombineOne<int16_t>({kSum, DType::kInt16}, 32767, 1), -32768);
  EXPECT_EQ(CombineOne<int16_t>({kProd, DType::kInt16}, -32768, -1), -32768);
  EXPECT_EQ(CombineOne<uint16_t>({kSum, DType::kUint16}, 65535, 2), 1);
  EXPECT_EQ(CombineOne<uint16_t>({kProd, DType::kUint16}, 65535, 65535), 1);
  EXPECT_EQ(CombineOne<uint32_t>({kSum, DType::kUint32}, UINT32_MAX, 2), 1u);
  EXPECT_EQ(CombineOne<uint64_t>({kProd, DType::kUint64}, UINT64_MAX, 3),
            UINT64_MAX - 2);
}

TEST_P(ReductionKernelsTest, IntegersCompareWithTheirSign) {
  constexpr int64_t kMin64 = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(CombineOne<int8_t>({kMin, DType::kInt8}, -1, 1), -1);
  EXPECT_EQ(CombineOne<uint8_t>({kMin, DType::kUint8}, 255, 1), 1);
  EXPECT_EQ(CombineOne<uint8_t>({kMax, DType::kUint8}, 255, 1), 255);
  EXPECT_EQ(CombineOne<int32_t>({kMax, DType::kInt32}, -7, -8), -7);
  EXPECT_EQ(CombineOne<int64_t>({kMin, DType::kInt64}, kMin64, 1), kMin64);
  EXPECT_EQ(CombineOne<int64_t>({kMax, DType::kInt64}, kMin64, -1), -1);
  EXPECT_EQ(CombineOne<int64_t>({kMax, DType::kInt64}, int64_t{1} << 40, 5),
            int64_t{1} << 40);
  EXPECT_EQ(CombineOne<int16_t>({kMax, DType::kInt16}, -1, 1), 1);
  EXPECT_EQ(CombineOne<uint16_t>({kMax, DType::kUint16}, 65535, 1), 65535);
  EXPECT_EQ(CombineOne<uint32_t>({kMin, DType::kUint32}, UINT32_MAX, 1), 1u);
  EXPECT_EQ(CombineOne<uint64_t>({kMax, DType::kUint64}, UINT64_MAX, 1),
            UINT64_MAX);
}

TEST_P(ReductionKernelsTest, MinusZeroIsBelowPlusZeroInEitherOrder) {
  for (DType dtype : kAllDTypes) {
    if (!IsFloating(dtype)) continue;
    SCOPED_TRACE(Name(dtype));
    const Bytes minus = Element(dtype, SignBit(dtype));
    const Bytes plus = Element(dtype, 0);
    EXPECT_EQ(Combine({kMin, dtype}, minus, plus), minus);
    EXPECT_EQ(Combine({kMin, dtype}, plus, minus), minus);
    EXPECT_EQ(Combine({kMax, dtype}, minus, plus), plus);
    EXPECT_EQ(Combine({kMax, dtype}, plus, minus), plus);
  }
}

TEST_P(ReductionKernelsTest, EveryNaNIsTheQuietOneWithoutSignOrPayload) {
  const struct {
    DType dtype;
    uint64_t infinity, nan;  // The NaN expected in results.
  } kDTypes[] = {{DType::kFloat16, 0x7C00, 0x7E00},
                 {DType::kBFloat16, 0x7F80, 0x7FC0},
                 {DType::kFloat32, 0x7F800000, 0x7FC00000},
                 {DType::kFloat64, 0x7FF0000000000000, 0x7FF8000000000000}};
  for (const auto& [dtype, infinity, nan] : kDTypes) {
    const uint64_t sign = SignBit(dtype);
    const Bytes expected = Element(dtype, nan);
    for (uint64_t operand : {infinity + 1, sign + infinity + 1, sign + nan,
                             nan + 1, sign + (sign - 1)}) {
      for (uint64_t other : {uint64_t{0}, infinity, sign + infinity, nan + 2}) {
        const Bytes left = Element(dtype, operand);
        const Bytes right = Element(dtype, other);
        for (ReductionKind kind : {kSum, kProd, kMin, kMax}) {
          SCOPED_TRACE(Describe({kind, dtype}));
          EXPECT_EQ(Combine({kind, dtype}, left, right), expected);
          EXPECT_EQ(Combine({kind, dtype}, right, left), expected);
        }
      }
    }
    EXPECT_EQ(Combine({kSum, dtype}, Element(dtype, infinity),
                      Element(dtype, sign + infinity)),
              expected);
    EXPECT_EQ(Combine({kProd, dtype}, Element(dtype, sign + infinity),
                      Element(dtype, 0)),
              expected);
  }
}

TEST_P(ReductionKernelsTest, Float16RoundsToNearestEvenAndOverflows) {
  EXPECT_EQ(SumOfFloat16(2048, 1), FloatToFloat16(2048));  // Ties go to even.
  EXPECT_EQ(SumOfFloat16(2050, 1), FloatToFloat16(2052));
  EXPECT_EQ(SumOfFloat16(65504, 15.992f), 0x7BFF);  // Just below the tie.
  EXPECT_EQ(SumOfFloat16(65504, 16), 0x7C00);
  EXPECT_EQ(SumOfFloat16(-65504, -65504), 0xFC00);
  EXPECT_EQ(SumOfFloat16(0x1p-24f, 0x1p-24f), 0x0002);  // Denormals are kept.
  EXPECT_EQ(SumOfFloat16(-0x1p-14f, 0x1p-24f), 0x83FF);
}

TEST_P(ReductionKernelsTest, BFloat16RoundsToNearestEvenAndOverflows) {
  const ReductionPair sum = {kSum, DType::kBFloat16};
  // 256 + 1 and 258 + 1: ties go to even. 256 + 1.5: truncation would stay.
  EXPECT_EQ(CombineOne<uint16_t>(sum, 0x4380, 0x3F80), 0x4380);
  EXPECT_EQ(CombineOne<uint16_t>(sum, 0x4381, 0x3F80), 0x4382);
  EXPECT_EQ(CombineOne<uint16_t>(sum, 0x4380, 0x3FC0), 0x4381);
  EXPECT_EQ(CombineOne<uint16_t>(sum, 0x7F7F, 0x7F7F), 0x7F80);
  EXPECT_EQ(CombineOne<uint16_t>(sum, 0x0001, 0x0001), 0x0002);  // Denormals.
}

TEST_P(ReductionKernelsTest, DivisionMatchesTheReference) {
  constexpr int64_t kDivisors[] = {1,
                                   2,
                                   3,
                                   7,
                                   200,
                                   65536,
                                   int64_t{1} << 31,
                                   int64_t{1} << 32,
                                   std::numeric_limits<int64_t>::max()};
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    for (size_t length : kLengths) {
      for (int64_t divisor : kDivisors) {
        SCOPED_TRACE(absl::StrCat(Name(dtype), " / ", divisor));
        const Bytes sums = RandomElements(dtype, length, length);
        Bytes expected = sums;
        ReferenceDivideBy(dtype, expected.data(), length, divisor);
        Guarded values(sums, length % 4);
        Divide(dtype, values.data(), length, divisor);
        ExpectSameElements(dtype, values.content(), expected);
        EXPECT_TRUE(values.canaries_are_intact());
      }
    }
  }
}

TEST_P(ReductionKernelsTest, MultiplicationMatchesTheReference) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (DType dtype : kAllDTypes) {
    if (!IsFloating(dtype) && !IsComplex(dtype)) continue;
    for (size_t length : kLengths) {
      for (double factor : {1.0, -1.0, 1.0 / 3, 0.0, -0.0, 0x1p-120, 0x1p100,
                            1 + 0x1p-40, kInfinity, kNaN}) {
        SCOPED_TRACE(absl::StrCat(Name(dtype), " * ", factor));
        const Bytes from = RandomElements(dtype, length, length);
        Bytes expected = from;
        ReferenceMultiplyBy(dtype, expected.data(), length, factor);
        Guarded apart(Bytes(from.size()), length % 4);
        Guarded in_place(from, length % 3);
        const auto multiply = kernels().multiply[static_cast<size_t>(dtype)];
        multiply(from.data(), apart.data(), length, factor);
        multiply(in_place.data(), in_place.data(), length, factor);
        for (Guarded* into : {&apart, &in_place}) {
          ExpectSameElements(dtype, into->content(), expected);
          EXPECT_TRUE(into->canaries_are_intact());
        }
      }
    }
  }
}

TEST_P(ReductionKernelsTest, DivisionTruncatesIntegersTowardZero) {
  EXPECT_EQ(DivideOne<int32_t>(DType::kInt32, 7, 4), 1);
  EXPECT_EQ(DivideOne<int32_t>(DType::kInt32, -7, 4), -1);
  EXPECT_EQ(DivideOne<int64_t>(DType::kInt64, -8, 4), -2);
  EXPECT_EQ(DivideOne<int8_t>(DType::kInt8, -1, 4), 0);
  EXPECT_EQ(DivideOne<int16_t>(DType::kInt16, -7, 4), -1);
  EXPECT_EQ(DivideOne<uint32_t>(DType::kUint32, UINT32_MAX, 2), INT32_MAX);
  EXPECT_EQ(DivideOne<uint64_t>(DType::kUint64, UINT64_MAX, 2), INT64_MAX);
}

TEST_P(ReductionKernelsTest, DivisionByMoreThanTheDTypeHoldsIsRight) {
  EXPECT_EQ(DivideOne<int8_t>(DType::kInt8, 127, 200), 0);
  EXPECT_EQ(DivideOne<int8_t>(DType::kInt8, -128, 65536), 0);
  EXPECT_EQ(DivideOne<uint8_t>(DType::kUint8, 255, 65536 + 1), 0);
  EXPECT_EQ(
      DivideOne<int32_t>(DType::kInt32, std::numeric_limits<int32_t>::min(),
                         int64_t{1} << 31),
      -1);
}

// Folds elements, one of each input.
template <typename T>
T FoldOne(const ReductionPair& pair, const std::vector<T>& elements,
          int64_t divisor) {
  std::vector<const uint8_t*> inputs;
  for (const T& element : elements) {
    inputs.push_back(reinterpret_cast<const uint8_t*>(&element));
  }
  T result{};
  auto* const into = reinterpret_cast<uint8_t*>(&result);
  ReduceMany({.kind = pair.kind,
              .dtype = pair.dtype,
              .inputs = inputs,
              .outputs = {&into, 1},
              .num_elements = 1,
              .divisor = divisor});
  return result;
}

TEST(ReduceManyTest, AveragesOfIntegersAreExactAndTruncateTowardZero) {
  EXPECT_EQ(FoldOne<int8_t>({kSum, DType::kInt8}, {127, 127, 127}, 3), 127);
  EXPECT_EQ(FoldOne<int8_t>({kSum, DType::kInt8}, {-128, -128, 1}, 3), -85);
  EXPECT_EQ(FoldOne<uint8_t>({kSum, DType::kUint8}, {255, 255}, 2), 255);
  EXPECT_EQ(FoldOne<int16_t>({kSum, DType::kInt16}, {32767, 32766}, 2), 32766);
  EXPECT_EQ(FoldOne<uint16_t>({kSum, DType::kUint16}, {65535, 1}, 2), 32768);
  EXPECT_EQ(FoldOne<int32_t>({kSum, DType::kInt32}, {INT32_MIN, INT32_MIN}, 2),
            INT32_MIN);
  EXPECT_EQ(FoldOne<uint32_t>({kSum, DType::kUint32}, {UINT32_MAX, 0}, 2),
            uint32_t{INT32_MAX});
  EXPECT_EQ(FoldOne<int64_t>({kSum, DType::kInt64},
                             {INT64_MIN, INT64_MIN, INT64_MIN + 2}, 3),
            INT64_MIN + 1);
  EXPECT_EQ(FoldOne<uint64_t>({kSum, DType::kUint64},
                              {UINT64_MAX, UINT64_MAX, UINT64_MAX}, 3),
            UINT64_MAX);
  // The divisor may be larger than the dtype holds.
  EXPECT_EQ(
      FoldOne<int8_t>({kSum, DType::kInt8}, std::vector<int8_t>(300, -77), 300),
      -77);
}

// Fold() of one input or a custom merge op divides in a separate step.
TEST(FoldTest, IntegersThatAreNotSummedAreDividedAfterwards) {
  const std::vector<int8_t> values = {100, 7};
  std::vector<const uint8_t*> inputs;
  for (const int8_t& value : values) {
    inputs.push_back(reinterpret_cast<const uint8_t*>(&value));
  }
  int8_t result = 0;
  auto* const output = reinterpret_cast<uint8_t*>(&result);
  const FoldBuffers buffers = {.inputs = inputs,
                               .outputs = absl::MakeConstSpan(&output, 1),
                               .num_bytes = 1};
  ASSERT_THAT(Fold(DType::kInt8, kMax, FinalOp::DivideByGroupSize(), buffers),
              IsOk());
  EXPECT_EQ(result, 50);
  EXPECT_FALSE(
      IsMeanOfIntegers(DType::kInt8, kMax, FinalOp::DivideByGroupSize()));
  EXPECT_TRUE(
      IsMeanOfIntegers(DType::kInt8, kSum, FinalOp::DivideByGroupSize()));
  EXPECT_FALSE(
      IsMeanOfIntegers(DType::kFloat32, kSum, FinalOp::DivideByGroupSize()));
  EXPECT_FALSE(IsMeanOfIntegers(DType::kInt8, kSum, FinalOp()));
}

TEST_P(ReductionKernelsTest, FloatsOf8BitsRoundToNearestEvenAndSaturate) {
  const ReductionPair e4m3 = {kSum, DType::kFloat8E4M3FN};
  EXPECT_EQ(CombineOne<uint8_t>(e4m3, 0x38, 0x38), 0x40);  // 1 + 1
  EXPECT_EQ(CombineOne<uint8_t>(e4m3, 0x58, 0x38), 0x58);  // 16 + 1: a tie.
  EXPECT_EQ(CombineOne<uint8_t>(e4m3, 0x59, 0x38), 0x5A);  // 18 + 1
  EXPECT_EQ(CombineOne<uint8_t>(e4m3, 0x7E, 0x7E), 0x7E);  // 448 + 448
  EXPECT_EQ(CombineOne<uint8_t>(e4m3, 0xFE, 0xFE), 0xFE);
  EXPECT_EQ(CombineOne<uint8_t>(e4m3, 0x01, 0x01), 0x02);  // Denormals.
  EXPECT_EQ(CombineOne<uint8_t>(e4m3, 0xFF, 0x38), 0x7F);  // NaN stays NaN.
  const ReductionPair e5m2 = {kSum, DType::kFloat8E5M2};
  EXPECT_EQ(CombineOne<uint8_t>(e5m2, 0x3C, 0x3C), 0x40);
  EXPECT_EQ(CombineOne<uint8_t>(e5m2, 0x48, 0x3C), 0x48);  // 8 + 1: a tie.
  EXPECT_EQ(CombineOne<uint8_t>(e5m2, 0x7B, 0x7B), 0x7B);
  EXPECT_EQ(CombineOne<uint8_t>(e5m2, 0x7C, 0x3C), 0x7B);  // Infinity.
  EXPECT_EQ(CombineOne<uint8_t>(e5m2, 0x7C, 0xFC), 0x7E);  // It minus it.
  EXPECT_EQ(CombineOne<uint8_t>(e5m2, 0xFD, 0x3C), 0x7E);
}

TEST_P(ReductionKernelsTest, FoldsOfFloatsOf8BitsAreRoundedOnce) {
  // 16 + 1 + 1 is 18, but stays 16 if each step is rounded.
  const uint8_t big = 0x58, one = 0x38;
  const uint8_t* const inputs[] = {&big, &one, &one};
  uint8_t sum = 0;
  uint8_t* const into = &sum;
  Fold({kSum, DType::kFloat8E4M3FN},
       {.inputs = inputs, .outputs = {&into, 1}, .num_elements = 1});
  EXPECT_EQ(sum, 0x59);
}

TEST_P(ReductionKernelsTest, ComplexNumbersAddAndMultiply) {
  using Complex = std::complex<float>;
  const Complex a(1, 2), b(3, -4);
  EXPECT_EQ(CombineOne<Complex>({kSum, DType::kComplex64}, a, b),
            Complex(4, -2));
  EXPECT_EQ(CombineOne<Complex>({kProd, DType::kComplex64}, a, b),
            Complex(11, 2));
  EXPECT_EQ(DivideOne<Complex>(DType::kComplex64, b, 2), Complex(1.5f, -2));
  using Complex128 = std::complex<double>;
  EXPECT_EQ(CombineOne<Complex128>({kProd, DType::kComplex128},
                                   Complex128(0, 1), Complex128(0, 1)),
            Complex128(-1, 0));
  // Each product is rounded, on CPUs that could add without rounding it, too:
  // (1 + e)^2 - (1 + 2e) is e^2 in one rounding.
  const float e = 0x1p-12f;
  EXPECT_EQ(CombineOne<Complex>({kProd, DType::kComplex64}, Complex(1 + e, 1),
                                Complex(1 + e, 1 + 2 * e))
                .real(),
            0.0f);
}

TEST_P(ReductionKernelsTest, EveryByteOfABoolButZeroIsTrue) {
  const Bytes left = {0, 0, 1, 1, 0, 2, 255, 128, 3, 0};
  const Bytes right = {0, 1, 0, 1, 64, 0, 1, 128, 255, 0};
  const Bytes all = {0, 0, 0, 1, 0, 0, 1, 1, 1, 0};
  const Bytes any = {0, 1, 1, 1, 1, 1, 1, 1, 1, 0};
  const Bytes one = {0, 1, 1, 0, 1, 1, 0, 0, 0, 0};
  EXPECT_EQ(Combine({kMin, DType::kBool}, left, right), all);
  EXPECT_EQ(Combine({ReductionKind::kBand, DType::kBool}, left, right), all);
  EXPECT_EQ(Combine({kMax, DType::kBool}, left, right), any);
  EXPECT_EQ(Combine({ReductionKind::kBor, DType::kBool}, left, right), any);
  EXPECT_EQ(Combine({ReductionKind::kBxor, DType::kBool}, left, right), one);
}

TEST_P(ReductionKernelsTest, MeansOfManyBuffersMatchTheReference) {
  for (DType dtype : kAllDTypes) {
    if (!IsInteger(dtype)) continue;
    SCOPED_TRACE(Name(dtype));
    for (const size_t num_inputs : {2, 3, 9, 17}) {
      for (const size_t length : {0, 1, 7, 1001, 5000}) {
        ManyBuffers buffers(dtype, num_inputs, length, length % 3);
        const auto divisor = static_cast<int64_t>(num_inputs);
        const Bytes expected = buffers.Expected({kSum, dtype}, divisor);
        Guarded streamed(Bytes(expected.size()), length % 5);
        kernels().mean[static_cast<size_t>(dtype)](
            {.inputs = buffers.inputs(),
             .outputs = {buffers.input(0)},
             .streamed = {streamed.data()},
             .num_elements = length,
             .divisor = divisor});
        ExpectSameElements(dtype, buffers.input_content(0), expected);
        ExpectSameElements(dtype, streamed.content(), expected);
        EXPECT_TRUE(streamed.canaries_are_intact());
        EXPECT_EQ(buffers.input_content(1), buffers.original(1));
      }
    }
  }
}

TEST_P(ReductionKernelsTest, FoldsOfFloat16AreInFloat32ToTheEnd) {
  // 2048 + 1 + 1 is 2050, but stays 2048 if each step is rounded.
  const uint16_t big = FloatToFloat16(2048), one = FloatToFloat16(1);
  const auto bytes = [](const uint16_t& code) {
    return reinterpret_cast<const uint8_t*>(&code);
  };
  const uint8_t* const inputs[] = {bytes(big), bytes(one), bytes(one)};
  uint16_t sum = 0;
  auto* const into = reinterpret_cast<uint8_t*>(&sum);
  Fold({kSum, DType::kFloat16},
       {.inputs = inputs, .outputs = {&into, 1}, .num_elements = 1});
  EXPECT_EQ(sum, FloatToFloat16(2050));
}

TEST_P(ReductionKernelsTest, DivisionOfFloat16IsInFloat32) {
  EXPECT_EQ(DivideOne<uint16_t>(DType::kFloat16, 0x3C00, 3), 0x3555);
  // The divisor is not a float16: 65504 / 65536.
  EXPECT_EQ(DivideOne<uint16_t>(DType::kFloat16, 0x7BFF, 65536),
            FloatToFloat16(0.99951171875f));
  // The divisor is not a bfloat16: 256 / 257.
  EXPECT_EQ(DivideOne<uint16_t>(DType::kBFloat16, 0x4380, 257),
            FloatToBFloat16(256.0f / 257.0f));
}

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
  const auto op = MergeOp::Custom({.name = "append", .apply = Append}).value();
  int32_t left[] = {1, 5};
  const int32_t right[] = {4, 2};
  ASSERT_THAT(op.Apply(DType::kInt32, left, right, left, 2), IsOk());
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
              IsInvalidArgument("append", "function"));
}

TEST(MergeOpTest, ACustomOpCannotTakeABuiltInName) {
  for (ReductionKind kind : kAllReductionKinds) {
    const std::string name(Name(kind));
    EXPECT_THAT(MergeOp::Custom({.name = name, .apply = Append}),
                IsInvalidArgument(name));
  }
}

TEST(MergeOpTest, CustomOpsMayReduceEveryDType) {
  EXPECT_THAT(MergeOp().CheckSupports(DType::kBool), Not(IsOk()));
  const auto op = MergeOp::Custom({.name = "append", .apply = Append});
  for (DType dtype : kAllDTypes) {
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
              IsInternal("append", "out of ink"));
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
  const auto op =
      FinalOp::Custom({.name = "look",
                       .apply =
                           [&seen](DType, void*, int64_t, int group_size) {
                             seen = group_size;
                             return absl::OkStatus();
                           }})
          .value();
  EXPECT_FALSE(op.is_identity());
  ASSERT_THAT(op.Apply(DType::kInt32, nullptr, 0, 5), IsOk());
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
              IsInvalidArgument("negate", "function"));
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
              IsInternal("negate", "out of ink"));
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

}  // namespace reduction_test
}  // namespace tutti
