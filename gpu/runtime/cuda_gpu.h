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

// What is made on a GPU, and asked of it, before anything runs there: its pool
// of memory, and our kernels, which CUDA would else load when they are first
// launched, and may wait then for all that runs on the GPU.
//
// Thread-safe, as it does not change.
class CudaGpu {
 public:
  // The pool keeps `kept_bytes` of what is freed. Errors: UNIMPLEMENTED for a
  // GPU or a driver that is too old.
  static absl::StatusOr<std::shared_ptr<const CudaGpu>> Open(
      int gpu, uint64_t kept_bytes);
  ~CudaGpu();
  CudaGpu(const CudaGpu&) = delete;
  CudaGpu& operator=(const CudaGpu&) = delete;

  cudaMemPool_t pool() const { return pool_; }

  // What the GPU says where nothing of another one is part of the question:
  // success unless it is spoilt.
  cudaError_t Ask(int gpu) const;

  // How many blocks of the kernel it runs at a time. REQUIRES: there is such a
  // kernel (kernel_table.h).
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
  std::map<size_t, int> copy_blocks_;  // By `word_bytes`.
};

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_CUDA_GPU_H_
