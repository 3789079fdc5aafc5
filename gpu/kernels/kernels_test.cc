#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/kernels/kernel_loops.h"
#include "gpu/kernels/kernel_plan.h"
#include "gpu/kernels/kernel_table.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti::gpu {
namespace kernels_test {

TEST(GpuReductionTest, WhatKernelsDoNotTakeIsNamed) {
  float value = 0;
  const GpuReduction good = {
      .inputs = {&value}, .outputs = {&value}, .num_elements = 1};
  EXPECT_THAT(CheckReduction(good), IsOk());
  GpuReduction bad = good;
  bad.inputs.assign(9, &value);
  EXPECT_THAT(CheckReduction(bad), IsInvalidArgument("1 to 8 inputs, not 9"));
  bad = good;
  bad.outputs.clear();
  EXPECT_THAT(CheckReduction(bad), IsInvalidArgument("1 to 8 outputs, not 0"));
  bad = good;
  bad.outputs = {&value, nullptr};
  EXPECT_THAT(CheckReduction(bad), IsInvalidArgument("outputs[1]"));
  bad.num_elements = 0;
  EXPECT_THAT(CheckReduction(bad), IsOk());
  bad = good;
  bad.divisor = 0;
  EXPECT_THAT(CheckReduction(bad), IsInvalidArgument("not by 0"));
  bad = good;
  bad.dtype = DType::kBool;
  EXPECT_THAT(CheckReduction(bad), IsInvalidArgument("bool"));
  GpuReduction mean = good;
  mean.dtype = DType::kInt32;
  mean.divisor = 2;
  mean.inputs.assign(64, &value);
  EXPECT_THAT(CheckReduction(mean), IsOk());
  mean.inputs.assign(65, &value);
  EXPECT_THAT(CheckReduction(mean),
              IsInvalidArgument("1 to 64 integers to average, not 65"));
}

TEST(GpuReductionTest, WhatCopiesDoNotTakeIsNamed) {
  float value = 0;
  EXPECT_THAT(CheckCopy({.input = &value, .outputs = {&value}, .num_bytes = 4}),
              IsOk());
  EXPECT_THAT(CheckCopy({.outputs = {&value}, .num_bytes = 4}),
              IsInvalidArgument("inputs[0]"));
  EXPECT_THAT(CheckCopy({.input = &value, .num_bytes = 4}),
              IsInvalidArgument("1 to 8 outputs, not 0"));
}

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

// Tests that the loops of the kernels, compiled for the host, write the same
// bits as tutti/reduction.h. The GPU's code differs only in the conversions of
// float16.

constexpr size_t kThreads = 5;
constexpr uint8_t kGuard = 0xA5;

// Bytes at an address `offset` past a multiple of 64, between guards.
class Buffer {
 public:
  Buffer(const Bytes& bytes, size_t offset)
      : storage_(bytes.size() + offset + 192, kGuard), size_(bytes.size()) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    begin_ = 64 + (64 - address % 64) % 64 + offset;
    std::copy(bytes.begin(), bytes.end(), data());
  }

  uint8_t* data() { return storage_.data() + begin_; }
  Bytes bytes() { return {data(), data() + size_}; }

  // True if the guards are unchanged.
  bool IsUntouchedAround() {
    for (size_t i = 0; i < storage_.size(); ++i) {
      const bool is_inside = i >= begin_ && i < begin_ + size_;
      if (!is_inside && storage_[i] != kGuard) return false;
    }
    return true;
  }

 private:
  Bytes storage_;
  size_t size_;
  size_t begin_ = 0;
};

void RunOnHost(const GpuReduction& reduction) {
  ASSERT_TRUE(CheckReduction(reduction).ok());
  const ReduceArguments arguments = PlanReduce(reduction);
  WithReduction(reduction.kind, reduction.dtype, [&](auto format, auto op) {
    for (size_t i = kThreads; i-- > 0;) {
      ReduceShare<decltype(format), decltype(op)>(arguments, i, kThreads);
    }
    return 0;
  });
}

void RunOnHost(const GpuCopy& copy) {
  ASSERT_TRUE(CheckCopy(copy).ok());
  const CopyArguments arguments = PlanCopy(copy);
  WithWord(arguments.word_bytes, [&](auto word) {
    for (size_t i = kThreads; i-- > 0;) {
      CopyShare<decltype(word)>(arguments, i, kThreads);
    }
  });
}

Bytes Expected(const GpuReduction& reduction) {
  Bytes into(reduction.num_elements * SizeOf(reduction.dtype));
  std::vector<const uint8_t*> inputs;
  for (const void* input : reduction.inputs) {
    inputs.push_back(static_cast<const uint8_t*>(input));
  }
  const bool divides = IsFloating(reduction.dtype) || IsMean(reduction);
  ReduceMany({.kind = reduction.kind,
              .dtype = reduction.dtype,
              .inputs = inputs,
              .outputs = {into.data()},
              .num_elements = reduction.num_elements,
              .divisor = divides ? reduction.divisor : 1});
  if (!divides) {
    DivideBy(reduction.dtype, into.data(), reduction.num_elements,
             reduction.divisor);
  }
  return into;
}

struct Case {
  ReductionPair pair;
  size_t num_elements = 0;
  int num_inputs = 1;
  int num_outputs = 1;
  int64_t divisor = 1;
  size_t input_offset = 0;   // Bytes; first buffer.
  size_t output_offset = 0;  // Bytes; last buffer.
};

std::string Describe(const Case& c) {
  return absl::StrCat(Describe(c.pair), ", ", c.num_elements, " elements, ",
                      c.num_inputs, " to ", c.num_outputs, ", divisor ",
                      c.divisor, ", offsets ", c.input_offset, " and ",
                      c.output_offset);
}

void ExpectSameBits(const Case& c) {
  SCOPED_TRACE(Describe(c));
  const size_t size = SizeOf(c.pair.dtype);
  std::vector<Buffer> inputs, outputs;
  GpuReduction reduction = {.kind = c.pair.kind,
                            .dtype = c.pair.dtype,
                            .num_elements = c.num_elements,
                            .divisor = c.divisor};
  for (int i = 0; i < c.num_inputs; ++i) {
    inputs.emplace_back(RandomElements(c.pair.dtype, c.num_elements, i),
                        i == 0 ? c.input_offset : c.output_offset);
  }
  for (int i = 0; i < c.num_outputs; ++i) {
    outputs.emplace_back(Bytes(c.num_elements * size), c.output_offset);
  }
  for (Buffer& buffer : inputs) reduction.inputs.push_back(buffer.data());
  for (Buffer& buffer : outputs) reduction.outputs.push_back(buffer.data());
  RunOnHost(reduction);
  const Bytes expected = Expected(reduction);
  for (Buffer& output : outputs) {
    EXPECT_EQ(output.bytes(), expected);
    EXPECT_TRUE(output.IsUntouchedAround());
  }
}

TEST(KernelLoopsTest, EveryPairAndNumberOfInputsWritesTheBitsOfTheHost) {
  for (const ReductionPair& pair : SupportedPairs()) {
    for (int num_inputs = 1; num_inputs <= kMaxBuffers; ++num_inputs) {
      ExpectSameBits({.pair = pair,
                      .num_elements = 515,
                      .num_inputs = num_inputs,
                      .num_outputs = 2});
    }
  }
}

TEST(KernelLoopsTest, QuotientsHaveTheBitsOfTheHost) {
  for (const ReductionPair& pair : SupportedPairs()) {
    for (int64_t divisor : {int64_t{3}, int64_t{8}, int64_t{1} << 40}) {
      ExpectSameBits({.pair = pair,
                      .num_elements = 515,
                      .num_inputs = 3,
                      .divisor = divisor});
    }
  }
}

TEST(KernelLoopsTest, AveragesOfIntegersAreExactForAsManyInputsAsFit) {
  for (DType dtype : kAllDTypes) {
    if (!IsInteger(dtype)) continue;
    for (const int num_inputs : {2, 3, 8, 9, 63, kMaxMeanInputs}) {
      ExpectSameBits({.pair = {ReductionKind::kSum, dtype},
                      .num_elements = 515,
                      .num_inputs = num_inputs,
                      .num_outputs = 2,
                      .divisor = num_inputs,
                      .input_offset = num_inputs % 2 == 0 ? size_t{0} : 1});
    }
  }
}

TEST(KernelLoopsTest, OddLengthsWriteNothingElse) {
  for (DType dtype : kAllDTypes) {
    if (dtype == DType::kBool) continue;
    for (size_t num_elements = 0; num_elements < 70; ++num_elements) {
      ExpectSameBits({.pair = {ReductionKind::kSum, dtype},
                      .num_elements = num_elements,
                      .num_inputs = 2,
                      .num_outputs = kMaxBuffers});
    }
  }
}

TEST(KernelLoopsTest, BuffersNeedNoAlignment) {
  for (DType dtype : kAllDTypes) {
    for (size_t first = 0; first < 17; ++first) {
      for (size_t other : {size_t{0}, first, first + 1, first + 16}) {
        const bool is_bool = dtype == DType::kBool;
        ExpectSameBits(
            {.pair = {is_bool ? ReductionKind::kMax : ReductionKind::kSum,
                      dtype},
             .num_elements = 101,
             .num_inputs = 3,
             .num_outputs = 2,
             .input_offset = first,
             .output_offset = other});
      }
    }
  }
}

TEST(KernelLoopsTest, EveryCodeOfFloat16AndBFloat16IsReadAndWrittenAlike) {
  Bytes all;
  for (uint32_t code = 0; code < 65536; ++code) {
    all.push_back(static_cast<uint8_t>(code));
    all.push_back(static_cast<uint8_t>(code >> 8));
  }
  // Pairs each code with itself, with all codes in another order, and alone.
  Bytes mixed;
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint32_t code = (i * 40503 + 7) & 0xFFFF;
    mixed.push_back(static_cast<uint8_t>(code));
    mixed.push_back(static_cast<uint8_t>(code >> 8));
  }
  const std::vector<std::vector<const void*>> inputs = {
      {all.data()},
      {all.data(), all.data()},
      {all.data(), mixed.data()},
      {mixed.data(), all.data(), mixed.data()}};
  for (const ReductionPair& pair : SupportedPairs()) {
    if (SizeOf(pair.dtype) != 2 || !IsFloating(pair.dtype)) continue;
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (int64_t divisor : {1, 3, 2048}) {
        Bytes into(all.size());
        const GpuReduction reduction = {.kind = pair.kind,
                                        .dtype = pair.dtype,
                                        .inputs = inputs[i],
                                        .outputs = {into.data()},
                                        .num_elements = 65536,
                                        .divisor = divisor};
        RunOnHost(reduction);
        EXPECT_TRUE(into == Expected(reduction))
            << Describe(pair) << ", inputs " << i << ", divisor " << divisor;
      }
    }
  }
}

TEST(KernelLoopsTest, EverySpecialElementMeetsEachOtherAsOnTheHost) {
  for (const ReductionPair& pair : SupportedPairs()) {
    const auto [left, right] = SpecialOperands(pair.dtype);
    Bytes into(left.size());
    const GpuReduction reduction = {
        .kind = pair.kind,
        .dtype = pair.dtype,
        .inputs = {left.data(), right.data()},
        .outputs = {into.data()},
        .num_elements = left.size() / SizeOf(pair.dtype)};
    RunOnHost(reduction);
    EXPECT_EQ(into, Expected(reduction)) << Describe(pair);
  }
}

TEST(KernelLoopsTest, AnOutputMayBeAnInput) {
  for (size_t offset : {0, 3, 8}) {
    const Bytes start = RandomElements(DType::kFloat32, 1001, 1);
    Buffer a(start, offset), b(RandomElements(DType::kFloat32, 1001, 2), 0);
    const GpuReduction reduction = {.inputs = {b.data(), a.data()},
                                    .outputs = {a.data()},
                                    .num_elements = 1001};
    const Bytes expected = Expected(reduction);
    RunOnHost(reduction);
    EXPECT_EQ(a.bytes(), expected) << offset;
  }
}

TEST(KernelLoopsTest, CopiesOfEveryLengthAndAlignmentAreWhole) {
  for (size_t num_bytes : {0, 1, 3, 15, 16, 17, 63, 64, 65, 1001}) {
    for (size_t from = 0; from < 17; ++from) {
      for (size_t to : {size_t{0}, from, from + 1, from + 4}) {
        Buffer input(RandomElements(DType::kUint8, num_bytes, 1), from);
        Buffer one(Bytes(num_bytes), to), other(Bytes(num_bytes), from);
        RunOnHost(GpuCopy{.input = input.data(),
                          .outputs = {one.data(), other.data()},
                          .num_bytes = num_bytes});
        EXPECT_EQ(one.bytes(), input.bytes());
        EXPECT_EQ(other.bytes(), input.bytes());
        EXPECT_TRUE(one.IsUntouchedAround() && other.IsUntouchedAround())
            << num_bytes << " bytes from " << from << " to " << to;
      }
    }
  }
}

}  // namespace kernels_test
}  // namespace tutti::gpu
