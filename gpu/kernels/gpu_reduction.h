#ifndef TUTTI_GPU_KERNELS_GPU_REDUCTION_H_
#define TUTTI_GPU_KERNELS_GPU_REDUCTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// What one launch reads and writes at most.
inline constexpr int kMaxGpuBuffers = 8;

// A reduction of 1 to 8 buffers in one pass over a GPU's memory: every output =
// (inputs[0] (+) inputs[1] (+) ..., from left to right) / divisor.
//
// The bits are those of tutti/reduction.h: what ReduceMany() computes of
// floating dtypes, and of integers ReduceMany() and then DivideBy(). Pointers
// need no alignment, not even that of an element, but are fastest where all of
// them lie alike to 16 bytes. An output may equal inputs; it may overlap
// nothing else.
struct GpuReduction {
  ReductionKind kind = ReductionKind::kSum;
  DType dtype = DType::kFloat32;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  size_t num_elements = 0;
  int64_t divisor = 1;
};

// The first `num_bytes` of `input` to 1 to 8 outputs, none of which overlaps
// it or another.
struct GpuCopy {
  const void* input = nullptr;
  std::vector<void*> outputs;
  size_t num_bytes = 0;
};

// Whether a kernel can be launched with these. Errors: INVALID_ARGUMENT for too
// few or too many buffers, for a null one unless there is nothing to do, a
// divisor below one, or as CheckSupported().
absl::Status CheckReduction(const GpuReduction& reduction);
absl::Status CheckCopy(const GpuCopy& copy);

}  // namespace tutti

#endif  // TUTTI_GPU_KERNELS_GPU_REDUCTION_H_
