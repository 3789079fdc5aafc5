#include "gpu/kernels/kernel_plan.h"

#include <cstddef>
#include <cstdint>

#include "gpu/kernels/gpu_reduction.h"
#include "gtest/gtest.h"

namespace tutti::gpu {
namespace kernel_plan_test {

// Makes an address that nobody reads.
void* At(uintptr_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-*)
}

TEST(KernelPlanTest, AlignedBuffersAreAllPacksButForTheRest) {
  const ReduceArguments plan = PlanReduce({.inputs = {At(256), At(512)},
                                           .outputs = {At(1024)},
                                           .num_elements = 11});
  EXPECT_EQ(plan.head_elements, 0u);
  EXPECT_EQ(plan.num_packs, 2u);
  EXPECT_TRUE(plan.is_aligned);
}

TEST(KernelPlanTest, BuffersThatLieAlikeHaveAHead) {
  const ReduceArguments plan = PlanReduce(
      {.inputs = {At(256 + 4)}, .outputs = {At(1024 + 4)}, .num_elements = 11});
  EXPECT_EQ(plan.head_elements, 3u);
  EXPECT_EQ(plan.num_packs, 2u);
}

TEST(KernelPlanTest, TheHeadIsNoLongerThanTheBuffers) {
  const ReduceArguments plan = PlanReduce(
      {.inputs = {At(256 + 4)}, .outputs = {At(1024 + 4)}, .num_elements = 2});
  EXPECT_EQ(plan.head_elements, 2u);
  EXPECT_EQ(plan.num_packs, 0u);
}

TEST(KernelPlanTest, BuffersThatLieDifferentlyHaveNoPacks) {
  const ReduceArguments plan = PlanReduce({.inputs = {At(256), At(512 + 4)},
                                           .outputs = {At(1024)},
                                           .num_elements = 100});
  EXPECT_EQ(plan.num_packs, 0u);
  EXPECT_TRUE(plan.is_aligned);
}

TEST(KernelPlanTest, ElementsThatAreNotAlignedHaveNoPacks) {
  const ReduceArguments plan = PlanReduce({.inputs = {At(256 + 2)},
                                           .outputs = {At(1024 + 2)},
                                           .num_elements = 100});
  EXPECT_EQ(plan.num_packs, 0u);
  EXPECT_FALSE(plan.is_aligned);
}

TEST(KernelPlanTest, CopiesUseTheWidestWordThatFits) {
  const auto word_bytes = [](uintptr_t from, uintptr_t to) {
    return PlanCopy({.input = At(from), .outputs = {At(to)}, .num_bytes = 100})
        .word_bytes;
  };
  EXPECT_EQ(word_bytes(256, 512), 16u);
  EXPECT_EQ(word_bytes(259, 515), 16u);
  EXPECT_EQ(word_bytes(256, 516), 4u);
  EXPECT_EQ(word_bytes(256, 513), 1u);
}

TEST(KernelPlanTest, AGpuRunsTheBlocksOfAllItsMultiprocessors) {
  EXPECT_EQ(MostBlocks(132, 8), 1056);
  EXPECT_EQ(MostBlocks(1, 1), 1);
  // The driver says 0 for a kernel that it cannot load.
  EXPECT_EQ(MostBlocks(132, 0), 1);
}

TEST(KernelPlanTest, TheGridFitsTheGpu) {
  EXPECT_EQ(NumBlocks(0, 132), 1u);
  EXPECT_EQ(NumBlocks(256, 132), 1u);
  EXPECT_EQ(NumBlocks(257, 132), 2u);
  EXPECT_EQ(NumBlocks(size_t{1} << 40, 132), 132u);
  EXPECT_EQ(NumBlocks(SIZE_MAX, 0), 1u);
}

}  // namespace kernel_plan_test
}  // namespace tutti::gpu
