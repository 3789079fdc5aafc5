#ifndef TUTTI_GPU_RUNTIME_CUDA_GPU_H_
#define TUTTI_GPU_RUNTIME_CUDA_GPU_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Resources of a GPU that are made before anything runs there: a memory pool,
// and our kernels. CUDA would otherwise load a kernel at its first launch, and
// might then wait for everything that runs on the GPU.
//
// Immutable, hence thread-safe.
class CudaGpu {
 public:
  // Makes the resources. The pool keeps `kept_bytes` of freed memory. Errors:
  // UNIMPLEMENTED for a GPU or a driver that is too old.
  static absl::StatusOr<std::shared_ptr<const CudaGpu>> Open(
      int gpu, uint64_t kept_bytes);
  ~CudaGpu();
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;

  cudaMemPool_t pool() const { return pool_; }

  // Returns success unless the GPU is spoilt. Errors of other GPUs do not
  // count.
  cudaError_t Query(int gpu) const;

  // Number of blocks of the kernel that the GPU runs at a time. REQUIRES:
  // kernel_table.h has the kernel.
  int MostBlocks(ReductionKind kind, DType dtype) const;
  int MostBlocksOfCopy(size_t word_bytes) const;

 private:
  CudaGpu(cudaMemPool_t pool, cudaEvent_t never_recorded)
      : pool_(pool), never_recorded_(never_recorded) {}

  absl::Status LoadKernels(int gpu);

  const cudaMemPool_t pool_;
  const cudaEvent_t never_recorded_;

  // Const once Open() returns.
  std::map<std::pair<ReductionKind, DType>, int> reduce_blocks_;
  std::map<size_t, int> copy_blocks_;  // Keyed by `word_bytes`.
};

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_CUDA_GPU_H_
