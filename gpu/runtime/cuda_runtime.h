#ifndef TUTTI_GPU_RUNTIME_CUDA_RUNTIME_H_
#define TUTTI_GPU_RUNTIME_CUDA_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/runtime/cuda_gpu.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// GpuRuntime over the CUDA runtime, which is linked in. The first call looks
// for the driver: without a driver, every call returns UNAVAILABLE.
//
// Opens a GPU when the first stream is made on it, and waits there until our
// kernels are loaded. Refuses GPUs before compute capability 8.0 with
// UNIMPLEMENTED. Allocates from its memory pools, and keeps destroyed events
// for later use. The destructor frees the pools and events: destroy all
// streams, events and memory of the runtime before.
//
// Each call works in the primary context of its GPU. Afterwards, a thread that
// had another context current has the primary context of that context's GPU. A
// thread without a context then has the context of GPU 0.
class CudaRuntime : public GpuRuntime {
 public:
  explicit CudaRuntime(CudaRuntimeOptions options = {}) : options_(options) {}
  ~CudaRuntime() override;
  CudaRuntime(const CudaRuntime&) = delete;
  CudaRuntime& operator=(const CudaRuntime&) = delete;

  absl::StatusOr<int> NumGpus() override;
  absl::StatusOr<GpuProperties> Properties(int gpu) override;
  absl::StatusOr<PeerLink> LinkBetween(int gpu, int peer) override;
  absl::Status EnablePeerAccess(int gpu, int peer) override;
  absl::StatusOr<GpuStream> CreateStream(int gpu) override;
  absl::Status DestroyStream(GpuStream stream) override;
  absl::StatusOr<GpuEvent> CreateEvent(int gpu) override
      ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status DestroyEvent(GpuEvent event) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status RecordEvent(GpuEvent event, GpuStream stream) override;
  absl::Status FirstError(int gpu) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<bool> IsDone(GpuEvent event) override;
  absl::Status WaitForEvent(GpuStream stream, GpuEvent event) override;
  absl::StatusOr<void*> AllocateAsync(size_t num_bytes,
                                      GpuStream stream) override;
  absl::Status FreeAsync(void* memory, GpuStream stream) override;
  absl::StatusOr<PinnedMemory> AllocatePinned(size_t num_bytes,
                                              int gpu) override;
  absl::StatusOr<PinnedMemory> AllocatePinnedOnGpu(size_t num_bytes,
                                                   int gpu) override;
  absl::Status FreePinned(PinnedMemory memory) override;
  absl::StatusOr<int> OwnerOf(const void* memory, int gpu) override;
  absl::Status CallOn(int gpu,
                      absl::FunctionRef<absl::Status()> launch) override;
  absl::Status CopyAsync(void* to, const void* from, size_t num_bytes,
                         GpuStream stream) override;
  absl::Status CallHost(StatusCallback call, GpuStream stream) override;
  absl::Status LaunchReduce(const GpuReduction& reduction,
                            GpuStream stream) override;
  absl::Status LaunchCopy(const GpuCopy& copy, GpuStream stream) override;

 private:
  // Returns the GPU; opens it at the first call.
  absl::StatusOr<std::shared_ptr<const CudaGpu>> Find(int gpu)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the status of `call`. An error that spoils the GPU fails the
  // pending host calls of its streams, because CUDA never makes them. The error
  // spoils `gpu` unless it comes from an event or memory of another GPU.
  absl::Status Note(cudaError_t error, absl::string_view call, int gpu)
      ABSL_LOCKS_EXCLUDED(mu_);

  bool HasFailed(int gpu) ABSL_LOCKS_EXCLUDED(mu_);

  const CudaRuntimeOptions options_;

  Mutex mu_;
  std::map<int, std::shared_ptr<const CudaGpu>> gpus_ ABSL_GUARDED_BY(mu_);
  std::map<int, absl::Status> spoilt_ ABSL_GUARDED_BY(mu_);  // Keyed by GPU.

  // Destroyed events of each GPU, for later use.
  std::map<int, std::vector<cudaEvent_t>> kept_events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_CUDA_RUNTIME_H_
