#ifndef TUTTI_GPU_KERNELS_KERNEL_ARGUMENTS_H_
#define TUTTI_GPU_KERNELS_KERNEL_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>

// What kernels are launched with: plain values, so that a graph that captures a
// launch holds all that it needs.

namespace tutti::gpu {

inline constexpr int kMaxBuffers = 8;

// What a thread reads and writes at once where the buffers allow it.
inline constexpr size_t kPackBytes = 16;

inline constexpr unsigned kThreadsPerBlock = 256;

// A GpuReduction. Of its elements the first `head_elements` are computed one by
// one, then `num_packs` packs, then one by one those that are left.
struct ReduceArguments {
  const uint8_t* inputs[kMaxBuffers] = {};
  uint8_t* outputs[kMaxBuffers] = {};
  int num_inputs = 0;
  int num_outputs = 0;
  size_t num_elements = 0;
  size_t head_elements = 0;
  size_t num_packs = 0;
  int64_t divisor = 1;

  // Whether every buffer is aligned to its elements.
  bool is_aligned = false;
};

// A GpuCopy, as above: `head_bytes`, then `num_words` words of `word_bytes`.
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
