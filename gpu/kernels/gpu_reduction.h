#ifndef TUTTI_GPU_KERNELS_GPU_REDUCTION_H_
#define TUTTI_GPU_KERNELS_GPU_REDUCTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Most inputs, and most outputs, of a launch.
inline constexpr int kMaxGpuBuffers = 8;

// Most inputs of a launch that averages integers: one launch adds them all.
inline constexpr int kMaxGpuMeanInputs = 64;

// Reduction of 1 to 8 buffers in one pass over a GPU's memory: every output =
// (inputs[0] (+) inputs[1] (+) ..., from left to right) / divisor.
//
// Bits are equal to tutti/reduction.h: to ReduceMany() for floating dtypes and
// averages of integers, else to ReduceMany() and then DivideBy(). Pointers need
// no alignment, not even that of an element. Fastest if all pointers have the
// same offset to a multiple of 16 bytes. An output may equal inputs; it may
// overlap nothing else.
struct GpuReduction {
  ReductionKind kind = ReductionKind::kSum;
  DType dtype = DType::kFloat32;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  size_t num_elements = 0;
  int64_t divisor = 1;
};

// True if the reduction averages integers.
bool IsMean(const GpuReduction& reduction);

// Copies the first `num_bytes` of `input` to 1 to 8 outputs. No output overlaps
// the input or another output.
struct GpuCopy {
  const void* input = nullptr;
  std::vector<void*> outputs;
  size_t num_bytes = 0;
};

// Checks that a kernel can be launched with these arguments. Errors:
// INVALID_ARGUMENT for too few or too many buffers, for a null buffer with work
// to do, or for a divisor below 1; as CheckSupported().
absl::Status CheckReduction(const GpuReduction& reduction);
absl::Status CheckCopy(const GpuCopy& copy);

}  // namespace tutti

#endif  // TUTTI_GPU_KERNELS_GPU_REDUCTION_H_
