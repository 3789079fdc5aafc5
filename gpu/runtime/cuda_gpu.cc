#include "gpu/runtime/cuda_gpu.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "gpu/kernels/kernel_loops.h"
#include "gpu/kernels/kernel_plan.h"
#include "gpu/kernels/kernel_table.h"
#include "gpu/kernels/launch.h"
#include "gpu/runtime/cuda_status.h"
#include "gpu/runtime/on_gpu.h"

namespace tutti {
namespace {

absl::StatusOr<int> Attribute(cudaDeviceAttr attribute, absl::string_view name,
                              int gpu) {
  int value = 0;
  RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(&value, attribute, gpu),
                             absl::StrCat("cudaDeviceGetAttribute(", name, ")"),
                             gpu));
  return value;
}

absl::Status CheckAge(int gpu) {
  ASSIGN_OR_RETURN(const int major, Attribute(cudaDevAttrComputeCapabilityMajor,
                                              "ComputeCapabilityMajor", gpu));
  ASSIGN_OR_RETURN(const int minor, Attribute(cudaDevAttrComputeCapabilityMinor,
                                              "ComputeCapabilityMinor", gpu));
  RETURN_IF_ERROR(CheckCapability(gpu, major, minor));
  const absl::StatusOr<int> has_pools =
      Attribute(cudaDevAttrMemoryPoolsSupported, "MemoryPoolsSupported", gpu);
  if (!has_pools.ok() || *has_pools != 0) return has_pools.status();
  return absl::UnimplementedError(absl::StrCat(
      "GPU ", gpu, " cannot allocate in the order of a stream: its driver ",
      "has no memory pools"));
}

// Forbids reuse by internal dependencies. With them, the pool would make
// streams wait for other streams, unexpectedly, in order to reuse memory.
absl::Status SetUp(cudaMemPool_t pool, int gpu, uint64_t kept_bytes) {
  RETURN_IF_ERROR(
      CudaStatus(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold,
                                         &kept_bytes),
                 "cudaMemPoolSetAttribute(ReleaseThreshold)", gpu));
  int no = 0;
  return CudaStatus(cudaMemPoolSetAttribute(
                        pool, cudaMemPoolReuseAllowInternalDependencies, &no),
                    "cudaMemPoolSetAttribute(ReuseAllowInternalDependencies)",
                    gpu);
}

absl::StatusOr<cudaMemPool_t> NewPool(int gpu) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {.type = cudaMemLocationTypeDevice, .id = gpu};
  cudaMemPool_t pool = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaMemPoolCreate(&pool, &properties),
                             "cudaMemPoolCreate", gpu));
  return pool;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaGpu>> CudaGpu::Open(
    int gpu, uint64_t kept_bytes) {
  const OnGpu on_gpu(gpu);
  RETURN_IF_ERROR(CudaStatus(on_gpu.error(), "cudaSetDevice", gpu));
  RETURN_IF_ERROR(CheckAge(gpu));
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(
      CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                 "cudaEventCreateWithFlags", gpu));
  const absl::StatusOr<cudaMemPool_t> pool = NewPool(gpu);
  if (!pool.ok()) {
    (void)cudaEventDestroy(event);
    return pool.status();
  }
  // The constructor is private.
  const std::shared_ptr<CudaGpu> opened(new CudaGpu(*pool, event));
  RETURN_IF_ERROR(SetUp(*pool, gpu, kept_bytes));
  RETURN_IF_ERROR(opened->LoadKernels(gpu));
  return opened;
}

CudaGpu::~CudaGpu() {
  (void)cudaMemPoolDestroy(pool_);
  (void)cudaEventDestroy(never_recorded_);
}

cudaError_t CudaGpu::Query(int gpu) const {
  const OnGpu on_gpu(gpu);
  const cudaError_t error = on_gpu.error() == cudaSuccess
                                ? cudaEventQuery(never_recorded_)
                                : on_gpu.error();
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

int CudaGpu::MostBlocks(ReductionKind kind, DType dtype) const {
  const auto found = reduce_blocks_.find({kind, dtype});
  return found == reduce_blocks_.end() ? 1 : found->second;
}

int CudaGpu::MostBlocksOfCopy(size_t word_bytes) const {
  const auto found = copy_blocks_.find(word_bytes);
  return found == copy_blocks_.end() ? 1 : found->second;
}

absl::Status CudaGpu::LoadKernels(int gpu) {
  ASSIGN_OR_RETURN(
      const int num_multiprocessors,
      Attribute(cudaDevAttrMultiProcessorCount, "MultiProcessorCount", gpu));
  absl::Status first_error;
  const auto most = [&](const gpu::LoadedKernel& loaded) {
    first_error.Update(CudaStatus(loaded.error, "loading kernels", gpu));
    return gpu::MostBlocks(num_multiprocessors,
                           loaded.blocks_per_multiprocessor);
  };
  for (const DType dtype : kAllDTypes) {
    for (const ReductionKind kind : kAllReductionKinds) {
      if (!CheckSupported(kind, dtype).ok()) continue;
      reduce_blocks_[{kind, dtype}] =
          most(gpu::WithReduction(kind, dtype, [](auto format, auto op) {
            return gpu::LoadReduce<decltype(format), decltype(op)>();
          }));
    }
  }
  for (const size_t word_bytes : {gpu::kPackBytes, size_t{4}, size_t{1}}) {
    copy_blocks_[word_bytes] = most(gpu::WithWord(
        word_bytes, [](auto word) { return gpu::LoadCopy<decltype(word)>(); }));
  }
  return first_error;
}

}  // namespace tutti
