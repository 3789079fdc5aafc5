#include "implementations/local/local_fan_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/doubles/local_job.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {
namespace local_fan_out_test {

// Elements of each rank's block, of four bytes each. Blocks that are gathered,
// blocks that are too large, and empty blocks alternate and repeat.
std::vector<int64_t> BlockElements() {
  std::vector<int64_t> elements = {1, 65, 64, 0, 64, 3, 2000, 0, 1, 1100, 63};
  for (int i = 0; i < 50; ++i) elements.push_back(64);  // More than 4 KiB.
  for (int i = 0; i < 30; ++i) elements.push_back(i % 7);
  elements.push_back(0);
  return elements;
}

std::vector<float> AllBlocks() {
  std::vector<float> all;
  for (size_t rank = 0; rank < BlockElements().size(); ++rank) {
    all.insert(all.end(), static_cast<size_t>(BlockElements()[rank]),
               static_cast<float>(rank + 1));
  }
  return all;
}

class LocalFanOutTest : public testing::TestWithParam<bool> {};

TEST_P(LocalFanOutTest, BlocksOfAllSizesArriveInOrder) {
  const bool in_place = GetParam();
  const std::vector<int64_t> elements = BlockElements();
  const std::vector<float> all = AllBlocks();
  const auto shape = TensorShape::Vector(static_cast<int64_t>(all.size()));
  LocalJob job({.devices_per_task = static_cast<int>(elements.size())});
  std::vector<std::vector<float>> buffers(elements.size(), all);
  std::vector<LocalJob::Call*> calls;
  int64_t begin = 0;
  for (size_t rank = 0; rank < elements.size(); ++rank) {
    CollectiveRequest request =
        job.AllReduceRequest(elements[rank], "LocalGather");
    request.op = AllGather{.uneven = true};
    std::vector<float>& buffer = buffers[rank];
    for (float& value : buffer) value *= -1;
    for (int64_t i = begin; i < begin + elements[rank]; ++i) {
      buffer[static_cast<size_t>(i)] *= -1;
    }
    calls.push_back(
        &job.Start(static_cast<int>(rank), request, [&](CollectiveArgs& args) {
          *args.output = *Tensor::Wrap(DType::kFloat32, shape, buffer.data());
          if (!in_place) return;
          args.input = *Tensor::Wrap(DType::kFloat32, request.shape,
                                     buffer.data() + begin);
        }));
    begin += elements[rank];
  }
  job.environment().RunAll();
  for (const LocalJob::Call* call : calls) {
    ASSERT_THAT(call->status, testing::Optional(IsOk()));
    EXPECT_TRUE(call->result() == all);
  }
}

INSTANTIATE_TEST_SUITE_P(InPlaceOrNot, LocalFanOutTest, testing::Bool());

}  // namespace local_fan_out_test
}  // namespace tutti
