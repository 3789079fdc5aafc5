// Tests broadcasts and gathers among GPU devices.

#include <cstdint>
#include <utility>
#include <vector>

#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_group.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace gpu_local_copies_test {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr uint64_t kSeeds = 20;

// Names the pass, as other implementations are linked too.
CollectiveRequest RequestOf(FakeGpuGroup& group, const CollectiveOp& op,
                            DType dtype, int64_t num_elements) {
  CollectiveRequest request = group.Request(op, dtype, num_elements);
  request.impl_details.implementation = std::holds_alternative<Broadcast>(op)
                                            ? "GpuLocalBroadcast"
                                            : "GpuLocalGather";
  return request;
}

// The parameter is the number of devices on the GPU.
class GpuLocalCopiesTest : public testing::TestWithParam<int> {
 protected:
  static FakeGpuGroup::Options Options(uint64_t seed) {
    return {.seed = seed, .devices_per_gpu = GetParam()};
  }
};
INSTANTIATE_TEST_SUITE_P(Members, GpuLocalCopiesTest,
                         testing::Values(1, 2, 3, 8, 9, 17));

// Waits for the end of all members. Returns the outputs, as the compute streams
// read them after all members have called.
std::vector<Bytes> ReadAfterCalls(FakeGpuGroup& group,
                                  const std::vector<Tensor>& outputs) {
  std::vector<Tensor> seen;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (!outputs[rank].is_set()) continue;
    seen.push_back(group.Copy(rank, outputs[rank]));
  }
  group.RunAll();
  EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
  std::vector<Bytes> bytes;
  bytes.reserve(seen.size());
  for (const Tensor& tensor : seen) bytes.push_back(group.Read(tensor));
  return bytes;
}

TEST_P(GpuLocalCopiesTest, EveryMemberGetsTheInputOfTheSource) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group(Options(seed));
    const int root = static_cast<int>(seed) % group.size();
    const bool in_place = seed % 2 == 0;
    const Bytes bytes = RandomElements(DType::kFloat16, 33, seed);
    std::vector<Tensor> outputs(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      Tensor input;
      if (rank == root) {
        input = group.Allocate(rank, DType::kFloat16, 33);
        group.Write(rank, input, bytes);
        if (in_place) outputs[rank] = input;
      }
      group.Call(rank,
                 RequestOf(group, Broadcast{.is_source = rank == root},
                           DType::kFloat16, 33),
                 std::move(input), &outputs[rank]);
    }
    EXPECT_THAT(ReadAfterCalls(group, outputs), Each(bytes));
    outputs.clear();
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

// Inputs of the members, of equal or of different lengths.
std::vector<Bytes> InputsOf(int num_ranks, bool is_uneven, uint64_t seed) {
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < num_ranks; ++rank) {
    inputs.push_back(RandomElements(DType::kInt8, is_uneven ? 2 * rank : 5,
                                    100 * seed + rank));
  }
  return inputs;
}

Bytes Joined(const std::vector<Bytes>& inputs) {
  Bytes all;
  for (const Bytes& input : inputs) {
    all.insert(all.end(), input.begin(), input.end());
  }
  return all;
}

TEST_P(GpuLocalCopiesTest, EveryMemberGetsAllInputs) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group(Options(seed));
    const bool is_uneven = seed % 2 == 0;
    const auto inputs = InputsOf(group.size(), is_uneven, seed);
    std::vector<Tensor> outputs(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      const auto length = static_cast<int64_t>(inputs[rank].size());
      const Tensor input = group.Allocate(rank, DType::kInt8, length);
      group.Write(rank, input, inputs[rank]);
      group.Call(rank,
                 RequestOf(group, AllGather{.uneven = is_uneven}, DType::kInt8,
                           length),
                 input, &outputs[rank]);
    }
    EXPECT_THAT(ReadAfterCalls(group, outputs), Each(Joined(inputs)));
    outputs.clear();
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

TEST_P(GpuLocalCopiesTest, InputsMayBeThePartsOfTheOutputsThatTheyFill) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group(Options(seed));
    const auto inputs = InputsOf(group.size(), /*is_uneven=*/false, seed);
    std::vector<Tensor> outputs;
    for (int rank = 0; rank < group.size(); ++rank) {
      outputs.push_back(group.Allocate(rank, DType::kInt8, 5 * group.size()));
      const Tensor input = *outputs[rank].Slice(5 * rank, 5 * (rank + 1));
      group.Write(rank, input, inputs[rank]);
    }
    for (int rank = 0; rank < group.size(); ++rank) {
      group.Call(rank, RequestOf(group, AllGather{}, DType::kInt8, 5),
                 *outputs[rank].Slice(5 * rank, 5 * (rank + 1)),
                 &outputs[rank]);
    }
    EXPECT_THAT(ReadAfterCalls(group, outputs), Each(Joined(inputs)));
    outputs.clear();
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

TEST_P(GpuLocalCopiesTest, TheRootGetsAllInputs) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group(Options(seed));
    const int root = static_cast<int>(seed) % group.size();
    const auto inputs = InputsOf(group.size(), /*is_uneven=*/false, seed);
    std::vector<Tensor> outputs(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      const Tensor input = group.Allocate(rank, DType::kInt8, 5);
      group.Write(rank, input, inputs[rank]);
      group.Call(rank,
                 RequestOf(group, GatherToRoot{.root = root}, DType::kInt8, 5),
                 input, rank == root ? &outputs[rank] : nullptr);
    }
    EXPECT_THAT(ReadAfterCalls(group, outputs),
                testing::ElementsAre(Joined(inputs)));
    outputs.clear();
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

TEST(GpuLocalCopyFaultsTest, ACopyThatFailsEndsAllMembers) {
  for (const int num_good : {0, 1, 2}) {
    FakeGpuGroup group({.devices_per_gpu = 3});
    std::vector<Tensor> inputs, outputs;
    for (int rank = 0; rank < group.size(); ++rank) {
      inputs.push_back(group.Allocate(rank, DType::kInt8, 5));
      outputs.push_back(group.Allocate(rank, DType::kInt8, 15));
    }
    group.runtime().FailCall(GpuCall::kLaunchCopy, num_good,
                             absl::InternalError("no luck"));
    for (int rank = 0; rank < group.size(); ++rank) {
      group.Call(rank, RequestOf(group, AllGather{}, DType::kInt8, 5),
                 inputs[rank], &outputs[rank]);
    }
    group.RunAll();
    EXPECT_THAT(group.ended(), Each(Optional(IsInternal("no luck"))));
    inputs.clear();
    outputs.clear();
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

}  // namespace gpu_local_copies_test
}  // namespace tutti
