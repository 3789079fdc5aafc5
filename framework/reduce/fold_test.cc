#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/tensor/float16.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/reduction.h"

namespace tutti {
namespace fold_test {

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

}  // namespace fold_test
}  // namespace tutti
