#include "framework/reduce/neutral_element.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>
#include <cstddef>
#include <vector>

#include "framework/reduce/reduction_test_data.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace neutral_element_test {

constexpr size_t kNumElements = 1001;

// The elements as results are: max(x, x) of each, or of each part.
Bytes Canonical(DType dtype, Bytes elements) {
  size_t num_elements = kNumElements;
  if (IsComplex(dtype)) {
    num_elements *= 2;
    dtype = dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  }
  Reduce(ReductionKind::kMax, dtype, elements.data(), elements.data(),
         elements.data(), num_elements);
  return elements;
}

TEST(NeutralElementTest, LeavesTheBitsOfEveryElement) {
  for (const ReductionPair& pair : SupportedPairs()) {
    SCOPED_TRACE(Describe(pair));
    if (IsComplex(pair.dtype) && pair.kind == ReductionKind::kProd) continue;
    const Bytes elements = RandomElements(pair.dtype, kNumElements, /*seed=*/1);
    Bytes neutral(elements.size());
    ASSERT_THAT(FillWithNeutral(pair.kind, pair.dtype, neutral.data(),
                                static_cast<int64_t>(kNumElements)),
                IsOk());
    for (const bool is_left : {false, true}) {
      Bytes result(elements.size());
      Reduce(pair.kind, pair.dtype, (is_left ? neutral : elements).data(),
             (is_left ? elements : neutral).data(), result.data(),
             kNumElements);
      EXPECT_EQ(result, Canonical(pair.dtype, elements));
    }
  }
}

TEST(NeutralElementTest, LeavesTheValueInAProductOfComplexNumbers) {
  const std::vector<std::complex<double>> values = {{2, -3}, {-0.5, 0}, {0, 7}};
  std::vector<std::complex<double>> result(values.size());
  ASSERT_THAT(
      FillWithNeutral(ReductionKind::kProd, DType::kComplex128, result.data(),
                      static_cast<int64_t>(result.size())),
      IsOk());
  Reduce(ReductionKind::kProd, DType::kComplex128, values.data(), result.data(),
         result.data(), values.size());
  EXPECT_EQ(result, values);
}

TEST(NeutralElementTest, RefusesWhatCannotBeReduced) {
  float value = 3;
  EXPECT_THAT(FillWithNeutral(ReductionKind::kBand, DType::kFloat32, &value, 1),
              IsInvalidArgument("band", "float32"));
  EXPECT_EQ(value, 3);
}

}  // namespace neutral_element_test
}  // namespace tutti
