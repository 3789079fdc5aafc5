#include "tools/request/test_data.h"

#include <cstring>
#include <set>

#include "gtest/gtest.h"
#include "tools/request/element.h"

namespace tutti {
namespace test_data_test {

void Copy(std::byte* into, const std::byte* from, size_t num_bytes) {
  std::memcpy(into, from, num_bytes);
}

Workload Of(CollectiveType type, DType dtype, int group_size, int64_t count) {
  Workload workload = {
      .spec = *ParseCollectiveSpec({.collective = std::string(Name(type))}),
      .dtype = dtype,
      .group_size = group_size,
      .count = count};
  workload.spec.root = group_size - 1;
  for (int rank = 0; rank < group_size; ++rank) {
    workload.spec.permutation.push_back((rank + 1) % group_size);
  }
  return workload;
}

std::vector<std::byte> InputOf(const TestData& data, const Workload& workload,
                               int rank) {
  std::vector<std::byte> input(InputElements(workload, rank) *
                               SizeOf(workload.dtype));
  data.WriteInput(rank, input.data(), Copy);
  return input;
}

// Computes the right output from the inputs, for sums of float32.
std::vector<std::byte> OutputOf(const TestData& data, const Workload& workload,
                                int rank) {
  std::vector<std::vector<std::byte>> inputs;
  for (int r = 0; r < workload.group_size; ++r) {
    inputs.push_back(InputOf(data, workload, r));
  }
  std::vector<std::byte> output;
  for (const Segment& segment : ExpectedOutput(workload, rank)) {
    for (int64_t i = segment.begin; i < segment.begin + segment.count; ++i) {
      std::byte element[4];
      if (segment.source != Segment::kReduction) {
        std::memcpy(element, &inputs[segment.source][i * 4], 4);
      } else {
        float sum = 0;
        for (const auto& input : inputs) sum += LoadAs<float>(&input[i * 4]);
        StoreAs(sum, element);
      }
      output.insert(output.end(), element, element + 4);
    }
  }
  return output;
}

class TestDataTest : public ::testing::TestWithParam<CollectiveType> {};

// Covers sizes around the period and far beyond it.
TEST_P(TestDataTest, FindsRightOutputsRightAndEveryWrongElement) {
  for (int64_t count : {int64_t{3}, int64_t{3000}, TestData::kPeriod * 3,
                        TestData::kPeriod * 6 + 3}) {
    const Workload workload = Of(GetParam(), DType::kFloat32, 3, count);
    const TestData data(workload, /*seed=*/1, /*with_results=*/true);
    for (int rank = 0; rank < 3; ++rank) {
      auto output = OutputOf(data, workload, rank);
      EXPECT_EQ(data.CountWrong(rank, output), 0) << count;
      if (output.empty()) continue;
      output.front() ^= std::byte{1};
      output.back() ^= std::byte{1};
      EXPECT_EQ(data.CountWrong(rank, output), output.size() == 4 ? 1 : 2);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Collectives, TestDataTest,
    ::testing::Values(CollectiveType::kAllReduce, CollectiveType::kAllGather,
                      CollectiveType::kReduceScatter,
                      CollectiveType::kBroadcast, CollectiveType::kAllToAll,
                      CollectiveType::kPermute, CollectiveType::kReduce,
                      CollectiveType::kGather, CollectiveType::kScatter),
    [](const auto& info) { return std::string(Name(info.param)); });

TEST(TestDataTest, AnOutputOfTheWrongSizeIsAllWrong) {
  const Workload workload =
      Of(CollectiveType::kAllReduce, DType::kFloat32, 2, 10);
  const TestData data(workload, 1, /*with_results=*/true);
  EXPECT_EQ(data.CountWrong(0, {}), 10);
}

TEST(TestDataTest, RanksBringDifferentThings) {
  const Workload workload =
      Of(CollectiveType::kAllReduce, DType::kInt32, 50, 100);
  const TestData data(workload, 1, /*with_results=*/true);
  std::set<std::vector<std::byte>> inputs;
  for (int rank = 0; rank < 50; ++rank) {
    inputs.insert(InputOf(data, workload, rank));
  }
  EXPECT_EQ(inputs.size(), 50u);
}

TEST(TestDataTest, OnlySomeRanksBringSomethingWhereSumsHaveFewBits) {
  const Workload workload =
      Of(CollectiveType::kAllReduce, DType::kBFloat16, 600, 100);
  std::set<int> have_brought;
  for (uint64_t seed : {0, 1, 2}) {
    const TestData data(workload, seed, /*with_results=*/false);
    int num_bringing = 0;
    for (int rank = 0; rank < 600; ++rank) {
      const auto input = InputOf(data, workload, rank);
      if (input == std::vector<std::byte>(input.size())) continue;
      ++num_bringing;
      have_brought.insert(rank);
    }
    EXPECT_EQ(num_bringing, 200);
  }
  EXPECT_EQ(have_brought.size(), 600u) << "some rank never takes its turn";
}

}  // namespace test_data_test
}  // namespace tutti
