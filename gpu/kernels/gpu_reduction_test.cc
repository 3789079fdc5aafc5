#include "gpu/kernels/gpu_reduction.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace gpu_reduction_test {

using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

TEST(GpuReductionTest, WhatKernelsDoNotTakeIsNamed) {
  float value = 0;
  const GpuReduction good = {
      .inputs = {&value}, .outputs = {&value}, .num_elements = 1};
  EXPECT_THAT(CheckReduction(good), IsOk());
  GpuReduction bad = good;
  bad.inputs.assign(9, &value);
  EXPECT_THAT(CheckReduction(bad),
              StatusIs(kInvalid, HasSubstr("1 to 8 inputs, not 9")));
  bad = good;
  bad.outputs.clear();
  EXPECT_THAT(CheckReduction(bad),
              StatusIs(kInvalid, HasSubstr("1 to 8 outputs, not 0")));
  bad = good;
  bad.outputs = {&value, nullptr};
  EXPECT_THAT(CheckReduction(bad), StatusIs(kInvalid, HasSubstr("outputs[1]")));
  bad.num_elements = 0;
  EXPECT_THAT(CheckReduction(bad), IsOk());
  bad = good;
  bad.divisor = 0;
  EXPECT_THAT(CheckReduction(bad), StatusIs(kInvalid, HasSubstr("not by 0")));
  bad = good;
  bad.dtype = DType::kBool;
  EXPECT_THAT(CheckReduction(bad), StatusIs(kInvalid, HasSubstr("bool")));
}

TEST(GpuReductionTest, WhatCopiesDoNotTakeIsNamed) {
  float value = 0;
  EXPECT_THAT(CheckCopy({.input = &value, .outputs = {&value}, .num_bytes = 4}),
              IsOk());
  EXPECT_THAT(CheckCopy({.outputs = {&value}, .num_bytes = 4}),
              StatusIs(kInvalid, HasSubstr("inputs[0]")));
  EXPECT_THAT(CheckCopy({.input = &value, .num_bytes = 4}),
              StatusIs(kInvalid, HasSubstr("1 to 8 outputs, not 0")));
}

}  // namespace gpu_reduction_test
}  // namespace tutti
