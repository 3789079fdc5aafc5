#ifndef TUTTI_GPU_KERNELS_KERNEL_ARGUMENTS_H_
#define TUTTI_GPU_KERNELS_KERNEL_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>

// Launch arguments of kernels. Plain values: a graph that captures a launch
// holds all that the launch needs.

namespace tutti::gpu {

inline constexpr int kMaxBuffers = 8;
inline constexpr int kMaxMeanInputs = 64;

// Bytes that a thread reads or writes at once if the buffers allow it.
inline constexpr size_t kPackBytes = 16;

inline constexpr unsigned kThreadsPerBlock = 256;

// Arguments of a GpuReduction. Threads compute the first `head_elements` one by
// one, then `num_packs` packs, then the rest one by one.
struct ReduceArguments {
  const uint8_t* inputs[kMaxMeanInputs] = {};
  uint8_t* outputs[kMaxBuffers] = {};
  int num_inputs = 0;
  int num_outputs = 0;
  size_t num_elements = 0;
  size_t head_elements = 0;
  size_t num_packs = 0;
  int64_t divisor = 1;

  // True if every buffer is aligned to its elements.
  bool is_aligned = false;
};

// Arguments of a GpuCopy: copies `head_bytes`, then `num_words` words of
// `word_bytes`, then the rest.
struct CopyArguments {
  const uint8_t* input = nullptr;
  uint8_t* outputs[kMaxBuffers] = {};
  int num_outputs = 0;
  size_t num_bytes = 0;
  size_t head_bytes = 0;
  size_t num_words = 0;
  size_t word_bytes = 1;
};

}  // namespace tutti::gpu

#endif  // TUTTI_GPU_KERNELS_KERNEL_ARGUMENTS_H_
