#include "gpu/runtime/split_reduction.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "gpu/kernels/gpu_reduction.h"
#include "gpu/runtime/gpu_launch.h"
#include "gtest/gtest.h"
#include "tutti/tensor.h"

namespace tutti {
namespace split_reduction_test {

// Launches for `num_members`, whose outputs are separate or in place.
std::vector<GpuLaunch> LaunchesFor(size_t num_members, bool in_place) {
  static uint8_t memory[200];
  GpuReduction reduction = {.dtype = DType::kInt8, .num_elements = 1};
  for (size_t i = 0; i < num_members; ++i) {
    reduction.inputs.push_back(memory + i);
    reduction.outputs.push_back(memory + i + (in_place ? 0 : 100));
  }
  EXPECT_FALSE(NeedsScratch(reduction));
  return SplitReduction(reduction, nullptr);
}

TEST(SplitReductionTest, UpToEightMembersAreOnePass) {
  for (const bool in_place : {false, true}) {
    for (size_t num_members = 1; num_members <= 8; ++num_members) {
      const auto launches = LaunchesFor(num_members, in_place);
      ASSERT_EQ(launches.size(), 1);
      const auto& pass = std::get<GpuReduction>(launches[0]);
      EXPECT_EQ(pass.inputs.size(), num_members);
      EXPECT_EQ(pass.outputs.size(), num_members);
    }
  }
}

TEST(SplitReductionTest, EachFurtherPassTakesSevenMore) {
  for (const auto& [num_members, num_passes] :
       {std::pair(9, 2), {15, 2}, {16, 3}, {22, 3}, {23, 4}}) {
    int num_reductions = 0;
    for (const GpuLaunch& launch : LaunchesFor(num_members, true)) {
      num_reductions += std::holds_alternative<GpuReduction>(launch) ? 1 : 0;
    }
    EXPECT_EQ(num_reductions, num_passes) << num_members;
  }
}

}  // namespace split_reduction_test
}  // namespace tutti
