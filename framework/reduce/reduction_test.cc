#include "tutti/reduction.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "framework/reduce/reduction_reference.h"
#include "framework/reduce/reduction_test_data.h"

namespace tutti {
namespace reduction_test {

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
