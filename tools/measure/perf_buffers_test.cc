#include "tools/measure/perf_buffers.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"

namespace tutti {
namespace perf_buffers_test {

using ::testing::HasSubstr;

Workload Of(CollectiveType type, int group_size, int64_t count) {
  Workload workload = {
      .spec = *ParseCollectiveSpec({.collective = std::string(Name(type))}),
      .dtype = DType::kFloat32,
      .group_size = group_size,
      .count = count};
  for (int rank = 0; rank < group_size; ++rank) {
    workload.spec.permutation.push_back((rank + 1) % group_size);
  }
  return workload;
}

// Writes the correct result into every rank's output.
void GatherInto(std::vector<RankBuffers>* ranks) {
  std::vector<std::byte> all;
  for (const RankBuffers& rank : *ranks) {
    all.insert(all.end(), rank.input.data(),
               rank.input.data() + rank.input.size_bytes());
  }
  for (RankBuffers& rank : *ranks) {
    std::memcpy(rank.output.mutable_data(), all.data(), all.size());
  }
}

class PerfBuffersTest : public ::testing::Test {
 protected:
  std::unique_ptr<PerfBuffers> Create(const Workload& workload,
                                      const BufferOptions& options) {
    auto buffers = PerfBuffers::Create(workload, {0, workload.group_size},
                                       options, environment_.get().queue);
    EXPECT_THAT(buffers, IsOk());
    return *std::move(buffers);
  }

  DefaultEnvironment environment_{2};
};

TEST_F(PerfBuffersTest, TensorsHaveTheSizesOfTheWorkload) {
  for (CollectiveType type : kAllCollectiveTypes) {
    const Workload workload =
        Of(type, 3, type == CollectiveType::kBarrier ? 0 : 12);
    for (bool in_place : {false, true}) {
      const auto ranks =
          AllocateBuffers(workload, {0, workload.group_size}, in_place);
      ASSERT_THAT(ranks, IsOk());
      for (int rank = 0; rank < 3; ++rank) {
        const auto& [input, output] = (*ranks)[rank];
        EXPECT_EQ(input.is_set() ? input.num_elements() : 0,
                  InputElements(workload, rank));
        EXPECT_EQ(output.is_set() ? output.num_elements() : 0,
                  OutputElements(workload, rank));
      }
    }
  }
}

TEST_F(PerfBuffersTest, InPlaceTheSmallerTensorIsTheRanksBlock) {
  const auto reduced =
      AllocateBuffers(Of(CollectiveType::kAllReduce, 3, 12), {0, 3}, true);
  EXPECT_EQ((*reduced)[2].input.data(), (*reduced)[2].output.data());
  const auto gathered =
      AllocateBuffers(Of(CollectiveType::kAllGather, 3, 12), {0, 3}, true);
  EXPECT_EQ((*gathered)[2].input.data(),
            (*gathered)[2].output.data() + 2 * 4 * sizeof(float));
  const auto scattered =
      AllocateBuffers(Of(CollectiveType::kReduceScatter, 3, 12), {0, 3}, true);
  EXPECT_EQ((*scattered)[2].output.data(),
            (*scattered)[2].input.data() + 2 * 4 * sizeof(float));
}

TEST_F(PerfBuffersTest, OutputsAreWrongUntilTheyAreWritten) {
  for (bool in_place : {false, true}) {
    const auto buffers = Create(Of(CollectiveType::kAllGather, 3, 300000),
                                {.in_place = in_place, .check = true});
    for (int iteration = 0; iteration < 6; ++iteration) {
      auto& ranks = buffers->Next();
      // In place, each rank has its own block already.
      EXPECT_EQ(buffers->CountWrong(), in_place ? 600000 : 900000);
      GatherInto(&ranks);
      EXPECT_EQ(buffers->CountWrong(), 0);
      ranks[1].output.mutable_data()[0] ^= std::byte{1};
      EXPECT_EQ(buffers->CountWrong(), 1);
    }
  }
}

TEST_F(PerfBuffersTest, SetsTakeTurnsWithDataOfTheirOwn) {
  const auto buffers = Create(Of(CollectiveType::kAllGather, 2, 10), {});
  const auto first = buffers->Next();
  const auto second = buffers->Next();
  EXPECT_NE(first[0].input.data(), second[0].input.data());
  EXPECT_NE(std::memcmp(first[0].input.data(), second[0].input.data(), 20), 0);
}

TEST_F(PerfBuffersTest, HotMeansOneSetWrittenOnce) {
  const auto buffers =
      Create(Of(CollectiveType::kAllGather, 2, 10), {.hot = true});
  std::byte* const data = buffers->Next()[0].input.mutable_data();
  data[0] ^= std::byte{1};
  const std::byte changed = data[0];
  EXPECT_EQ(buffers->Next()[0].input.data(), data);
  EXPECT_EQ(data[0], changed);
}

TEST_F(PerfBuffersTest, HotAndCheckedIsRewritten) {
  const auto buffers = Create(Of(CollectiveType::kAllGather, 2, 10),
                              {.hot = true, .check = true});
  GatherInto(&buffers->Next());
  EXPECT_EQ(buffers->CountWrong(), 0);
  buffers->Next();
  EXPECT_EQ(buffers->CountWrong(), 20);
}

TEST_F(PerfBuffersTest, MoreThanTheMachineHasIsRefused) {
  const Workload workload = Of(CollectiveType::kAllReduce, 2, int64_t{1} << 50);
  const auto buffers = PerfBuffers::Create(workload, {0, workload.group_size},
                                           {}, environment_.get().queue);
  EXPECT_EQ(buffers.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(PerfBuffersTest, TheRefusalSaysHowMuchWhatWouldTake) {
  EXPECT_THAT(
      PerfBuffers::CheckMemory(
          Of(CollectiveType::kAllReduce, 2, int64_t{1} << 48), {0, 2}, {}),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("buffers for all_reduce of 1048576G bytes on "
                         "2 ranks take 4194304G bytes")));
  EXPECT_THAT(
      PerfBuffers::CheckMemory(
          Of(CollectiveType::kAllReduce, 2, int64_t{1} << 48), {1, 1}, {}),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("on 1 rank takes ")));
}

TEST_F(PerfBuffersTest, ABarrierHasNoBuffers) {
  const auto buffers =
      Create(Of(CollectiveType::kBarrier, 3, 0), {.check = true});
  for (const RankBuffers& rank : buffers->Next()) {
    EXPECT_FALSE(rank.input.is_set());
    EXPECT_FALSE(rank.output.is_set());
  }
  EXPECT_EQ(buffers->CountWrong(), 0);
}

}  // namespace perf_buffers_test
}  // namespace tutti
