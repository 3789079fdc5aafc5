#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/tensor.h"

namespace tutti {
namespace segment_list_test {

using absl::StatusCode;
using testing::HasSubstr;
using testing::SizeIs;

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
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
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

}  // namespace segment_list_test
}  // namespace tutti
