#include "framework/reduce/fold_prefixes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_test_data.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace fold_prefixes_test {

// Lengths around lines and tiles.
constexpr int64_t kLengths[] = {0, 1, 7, 31, 32, 33, 1001, 1024, 1025, 4097};

std::vector<Bytes> InputsOf(DType dtype, int num_ranks, int64_t length) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < num_ranks; ++rank) {
    inputs.push_back(RandomElements(dtype, static_cast<size_t>(length),
                                    static_cast<uint64_t>(rank + 1)));
  }
  return inputs;
}

// Result of Fold() of the first `num_ranks` inputs.
Bytes FoldOf(DType dtype, const MergeOp& op, const std::vector<Bytes>& inputs,
             size_t num_ranks) {
  Bytes result(inputs[0].size());
  std::vector<const uint8_t*> pointers;
  for (size_t rank = 0; rank < num_ranks; ++rank) {
    pointers.push_back(inputs[rank].data());
  }
  uint8_t* const output = result.data();
  EXPECT_THAT(Fold(dtype, op, FinalOp(),
                   {.inputs = pointers,
                    .outputs = absl::MakeConstSpan(&output, 1),
                    .num_bytes = static_cast<int64_t>(result.size())}),
              IsOk());
  return result;
}

struct Way {
  bool is_exclusive = false;
  bool in_place = false;
  bool past_caches = false;
};

// Runs the scan in two parts and compares every output with Fold().
void ExpectFolds(DType dtype, const MergeOp& op, int num_ranks, int64_t length,
                 const Way& way) {
  const std::vector<Bytes> originals = InputsOf(dtype, num_ranks, length);
  std::vector<Bytes> inputs = originals;
  std::vector<Bytes> separate(inputs.size(), Bytes(inputs[0].size(), 0xCD));
  std::vector<Bytes>& outputs = way.in_place ? inputs : separate;
  PrefixBuffers buffers = {.is_exclusive = way.is_exclusive,
                           .past_caches = way.past_caches};
  std::vector<const uint8_t*> from;
  std::vector<uint8_t*> to;
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    const bool has_output = rank > 0 || !way.is_exclusive;
    from.push_back(inputs[rank].data());
    to.push_back(has_output ? outputs[rank].data() : nullptr);
  }
  buffers.inputs = from;
  buffers.outputs = to;
  const auto size = static_cast<int64_t>(SizeOf(dtype));
  const int64_t middle = length / 3;
  buffers.num_bytes = middle * size;
  ASSERT_THAT(FoldPrefixes(dtype, op, buffers), IsOk());
  buffers.begin = buffers.num_bytes;
  buffers.num_bytes = (length - middle) * size;
  ASSERT_THAT(FoldPrefixes(dtype, op, buffers), IsOk());
  for (size_t rank = 0; rank < inputs.size(); ++rank) {
    const size_t num_merged = way.is_exclusive ? rank : rank + 1;
    if (num_merged == 0) {
      EXPECT_EQ(inputs[rank], originals[rank]);
      continue;
    }
    EXPECT_TRUE(outputs[rank] == FoldOf(dtype, op, originals, num_merged))
        << "output " << rank << " of " << num_ranks << ", " << length << " "
        << Name(dtype) << ", " << op.name();
    if (!way.in_place) {
      EXPECT_EQ(inputs[rank], originals[rank]);
    }
  }
}

class FoldPrefixesTest : public testing::TestWithParam<int> {
 protected:
  static Way TheWay() {
    const int bits = GetParam();
    return {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
  }
};

// Sums of 16-bit floats tell whether they were rounded on the way.
TEST_P(FoldPrefixesTest, EveryOutputHasTheBitsOfTheFoldOfItsInputs) {
  for (const ReductionPair& pair : SupportedPairs()) {
    for (const int64_t length : kLengths) {
      ExpectFolds(pair.dtype, pair.kind, 4, length, TheWay());
    }
  }
}

TEST_P(FoldPrefixesTest, AnyNumberOfRanks) {
  for (int num_ranks = 1; num_ranks <= 9; ++num_ranks) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat64}) {
      ExpectFolds(dtype, MergeOp(), num_ranks, 77, TheWay());
    }
  }
}

// Keeps bytes of both operands in their order.
MergeOp Shifted() {
  return *MergeOp::Custom(
      {.name = "shifted",
       .apply = [](DType dtype, const void* left, const void* right, void* into,
                   int64_t num_elements) {
         const auto* const a = static_cast<const uint8_t*>(left);
         const auto* const b = static_cast<const uint8_t*>(right);
         std::transform(
             a, a + num_elements * static_cast<int64_t>(SizeOf(dtype)), b,
             static_cast<uint8_t*>(into), [](uint8_t x, uint8_t y) {
               return static_cast<uint8_t>(3 * x + y);
             });
         return absl::OkStatus();
       }});
}

TEST_P(FoldPrefixesTest, AnOpThatDoesNotCommuteGetsItsOperandsInOrder) {
  for (const DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    ExpectFolds(dtype, Shifted(), 5, 5000, TheWay());
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, FoldPrefixesTest, testing::Range(0, 8),
                         [](const auto& info) {
                           const int bits = info.param;
                           return absl::StrCat(
                               (bits & 1) != 0 ? "exclusive" : "inclusive",
                               (bits & 2) != 0 ? "_in_place" : "",
                               (bits & 4) != 0 ? "_past_caches" : "");
                         });

TEST(FoldPrefixesErrorTest, TheErrorOfAnOpIsPassedOn) {
  const MergeOp failing =
      *MergeOp::Custom({.name = "failing", .apply = [](auto...) {
                          return absl::DataLossError("lost");
                        }});
  const std::vector<Bytes> inputs = InputsOf(DType::kInt32, 2, 3);
  Bytes first(12), second(12);
  const std::vector<const uint8_t*> from = {inputs[0].data(), inputs[1].data()};
  const std::vector<uint8_t*> to = {first.data(), second.data()};
  const absl::Status status = FoldPrefixes(
      DType::kInt32, failing, {.inputs = from, .outputs = to, .num_bytes = 12});
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("failing"));
}

}  // namespace fold_prefixes_test
}  // namespace tutti
