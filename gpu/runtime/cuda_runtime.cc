#include "gpu/runtime/cuda_runtime.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"
#include "gpu/kernels/kernel_loops.h"
#include "gpu/kernels/kernel_plan.h"
#include "gpu/kernels/kernel_table.h"
#include "gpu/kernels/launch.h"
#include "gpu/runtime/cuda_host_calls.h"
#include "gpu/runtime/cuda_status.h"
#include "gpu/runtime/on_gpu.h"

namespace tutti {
namespace {

// Most events kept per GPU. Destroying an event took up to 14 us while other
// threads used the GPU (an H100, November 2026).
constexpr size_t kMostKeptEvents = 4096;

cudaStream_t HandleOf(GpuStream stream) {
  return static_cast<cudaStream_t>(stream.handle);
}
cudaEvent_t HandleOf(GpuEvent event) {
  return static_cast<cudaEvent_t>(event.handle);
}

// Sets the GPU of the memory, or GpuRuntime::kHost, also if CUDA does not know.
cudaError_t FindOwner(const void* memory, int* gpu) {
  cudaPointerAttributes attributes = {};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, memory);
  const bool is_on_gpu =
      error == cudaSuccess && attributes.type == cudaMemoryTypeDevice;
  *gpu = is_on_gpu ? attributes.device : GpuRuntime::kHost;
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

}  // namespace

CudaRuntime::~CudaRuntime() {
  CudaHostCalls::Get().EndAllOf(
      this, absl::AbortedError("the GPU runtime ended before the stream came "
                               "to this call"));
  std::map<int, std::vector<cudaEvent_t>> kept;
  {
    MutexLock lock(&mu_);
    kept.swap(kept_events_);
    for (const auto& [gpu, status] : spoilt_) kept.erase(gpu);
  }
  for (const auto& [gpu, events] : kept) {
    const OnGpu on_gpu(gpu);
    for (const cudaEvent_t event : events) (void)cudaEventDestroy(event);
  }
}

absl::StatusOr<int> CudaRuntime::NumGpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  const absl::Status status = CudaStatus(error, "cudaGetDeviceCount");
  if (error == cudaErrorNoDevice) return 0;
  if (!status.ok()) return status;
  return count;
}

absl::StatusOr<GpuProperties> CudaRuntime::Properties(int gpu) {
  cudaDeviceProp properties = {};
  RETURN_IF_ERROR(CudaStatus(cudaGetDeviceProperties(&properties, gpu),
                             "cudaGetDeviceProperties", gpu));
  std::array<char, 32> bus_id = {};
  RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size() - 1, gpu),
                 "cudaDeviceGetPCIBusId", gpu));
  return GpuProperties{
      .name = properties.name,
      .bus_id = bus_id.data(),
      .uuid = absl::BytesToHexString(absl::string_view(
          properties.uuid.bytes, sizeof(properties.uuid.bytes))),
      .num_multiprocessors = properties.multiProcessorCount,
      .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem)};
}

absl::StatusOr<PeerLink> CudaRuntime::LinkBetween(int gpu, int peer) {
  if (gpu == peer) return PeerLink::kNvLink;
  int can_access = 0, has_atomics = 0;
  RETURN_IF_ERROR(
      CudaStatus(cudaDeviceCanAccessPeer(&can_access, gpu, peer),
                 absl::StrCat("cudaDeviceCanAccessPeer(", peer, ")"), gpu));
  if (can_access == 0) return PeerLink::kNone;
  RETURN_IF_ERROR(CudaStatus(
      cudaDeviceGetP2PAttribute(&has_atomics,
                                cudaDevP2PAttrNativeAtomicSupported, gpu, peer),
      absl::StrCat("cudaDeviceGetP2PAttribute(", peer, ")"), gpu));
  return has_atomics != 0 ? PeerLink::kNvLink : PeerLink::kBus;
}

absl::Status CudaRuntime::EnablePeerAccess(int gpu, int peer) {
  if (gpu == peer) return absl::OkStatus();
  ASSIGN_OR_RETURN(const PeerLink link, LinkBetween(gpu, peer));
  if (link == PeerLink::kNone) {
    return absl::FailedPreconditionError(
        absl::StrCat("GPU ", gpu, " has no link to GPU ", peer));
  }
  ASSIGN_OR_RETURN(const auto owner, Find(peer));
  const OnGpu on_gpu(gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", gpu));
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
  absl::Status status =
      Note(error, absl::StrCat("cudaDeviceEnablePeerAccess(", peer, ")"), gpu);
  if (!status.ok() && error != cudaErrorPeerAccessAlreadyEnabled) return status;
  // Memory of a pool has a separate access list.
  cudaMemAccessDesc access = {};
  access.location = {.type = cudaMemLocationTypeDevice, .id = gpu};
  access.flags = cudaMemAccessFlagsProtReadWrite;
  return Note(cudaMemPoolSetAccess(owner->pool(), &access, 1),
              absl::StrCat("cudaMemPoolSetAccess to the memory of GPU ", peer),
              gpu);
}

absl::StatusOr<GpuStream> CudaRuntime::CreateStream(int gpu) {
  ASSIGN_OR_RETURN(const auto opened, Find(gpu));
  const OnGpu on_gpu(gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", gpu));
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(
      Note(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
           "cudaStreamCreateWithFlags", gpu));
  return GpuStream{gpu, stream};
}

absl::Status CudaRuntime::DestroyStream(GpuStream stream) {
  const OnGpu on_gpu(stream.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", stream.gpu));
  return Note(cudaStreamDestroy(HandleOf(stream)), "cudaStreamDestroy",
              stream.gpu);
}

absl::StatusOr<GpuEvent> CudaRuntime::CreateEvent(int gpu) {
  {
    MutexLock lock(&mu_);
    const auto spoilt = spoilt_.find(gpu);
    if (spoilt != spoilt_.end()) return spoilt->second;
    const auto kept = kept_events_.find(gpu);
    if (kept != kept_events_.end() && !kept->second.empty()) {
      const cudaEvent_t event = kept->second.back();
      kept->second.pop_back();
      return GpuEvent{gpu, event};
    }
  }
  const OnGpu on_gpu(gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", gpu));
  cudaEvent_t event = nullptr;
  RETURN_IF_ERROR(Note(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                       "cudaEventCreateWithFlags", gpu));
  return GpuEvent{gpu, event};
}

// Keeps the event for reuse. This is safe at once: a wait refers to the record
// that the event had when the wait was called.
absl::Status CudaRuntime::DestroyEvent(GpuEvent event) {
  {
    MutexLock lock(&mu_);
    std::vector<cudaEvent_t>& kept = kept_events_[event.gpu];
    if (kept.size() < kMostKeptEvents && !spoilt_.contains(event.gpu)) {
      kept.push_back(HandleOf(event));
      return absl::OkStatus();
    }
  }
  const OnGpu on_gpu(event.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", event.gpu));
  return Note(cudaEventDestroy(HandleOf(event)), "cudaEventDestroy", event.gpu);
}

absl::Status CudaRuntime::RecordEvent(GpuEvent event, GpuStream stream) {
  const OnGpu on_gpu(stream.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", stream.gpu));
  return Note(cudaEventRecord(HandleOf(event), HandleOf(stream)),
              "cudaEventRecord", stream.gpu);
}

absl::StatusOr<bool> CudaRuntime::IsDone(GpuEvent event) {
  const OnGpu on_gpu(event.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", event.gpu));
  const cudaError_t error = cudaEventQuery(HandleOf(event));
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return false;
  }
  RETURN_IF_ERROR(Note(error, "cudaEventQuery", event.gpu));
  return true;
}

absl::Status CudaRuntime::WaitForEvent(GpuStream stream, GpuEvent event) {
  const OnGpu on_gpu(stream.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", stream.gpu));
  return Note(cudaStreamWaitEvent(HandleOf(stream), HandleOf(event), 0),
              "cudaStreamWaitEvent", stream.gpu);
}

absl::StatusOr<void*> CudaRuntime::AllocateAsync(size_t num_bytes,
                                                 GpuStream stream) {
  ASSIGN_OR_RETURN(const auto found, Find(stream.gpu));
  const OnGpu on_gpu(stream.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", stream.gpu));
  void* memory = nullptr;
  RETURN_IF_ERROR(
      Note(cudaMallocFromPoolAsync(&memory, num_bytes, found->pool(),
                                   HandleOf(stream)),
           absl::StrCat("cudaMallocFromPoolAsync of ", num_bytes, " bytes"),
           stream.gpu));
  return memory;
}

absl::Status CudaRuntime::FreeAsync(void* memory, GpuStream stream) {
  const OnGpu on_gpu(stream.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", stream.gpu));
  return Note(cudaFreeAsync(memory, HandleOf(stream)), "cudaFreeAsync",
              stream.gpu);
}

absl::StatusOr<PinnedMemory> CudaRuntime::AllocatePinned(size_t num_bytes,
                                                         int gpu) {
  ASSIGN_OR_RETURN(const auto opened, Find(gpu));
  const OnGpu on_gpu(gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", gpu));
  PinnedMemory memory = {.gpu = gpu};
  RETURN_IF_ERROR(
      Note(cudaHostAlloc(&memory.data, num_bytes, cudaHostAllocPortable),
           absl::StrCat("cudaHostAlloc of ", num_bytes, " bytes"), gpu));
  return memory;
}

// Does not use the pool: other processes could not open its memory (cudaIpc).
absl::StatusOr<PinnedMemory> CudaRuntime::AllocatePinnedOnGpu(size_t num_bytes,
                                                              int gpu) {
  ASSIGN_OR_RETURN(const auto opened, Find(gpu));
  const OnGpu on_gpu(gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", gpu));
  PinnedMemory memory = {.gpu = gpu, .is_on_gpu = true};
  RETURN_IF_ERROR(Note(cudaMalloc(&memory.data, num_bytes),
                       absl::StrCat("cudaMalloc of ", num_bytes, " bytes"),
                       gpu));
  return memory;
}

absl::Status CudaRuntime::FreePinned(PinnedMemory memory) {
  const OnGpu on_gpu(memory.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", memory.gpu));
  if (memory.is_on_gpu) {
    return Note(cudaFree(memory.data), "cudaFree", memory.gpu);
  }
  return Note(cudaFreeHost(memory.data), "cudaFreeHost", memory.gpu);
}

absl::StatusOr<int> CudaRuntime::OwnerOf(const void* memory, int gpu) {
  const OnGpu on_gpu(gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", gpu));
  int owner = kHost;
  RETURN_IF_ERROR(
      Note(FindOwner(memory, &owner), "cudaPointerGetAttributes", gpu));
  return owner;
}

absl::Status CudaRuntime::CallOn(int gpu,
                                 absl::FunctionRef<absl::Status()> launch) {
  const OnGpu on_gpu(gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", gpu));
  return launch();
}

absl::Status CudaRuntime::CopyAsync(void* to, const void* from,
                                    size_t num_bytes, GpuStream stream) {
  const OnGpu on_gpu(stream.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", stream.gpu));
  int target = kHost, source = kHost;  // The copy reports errors.
  (void)FindOwner(to, &target);
  (void)FindOwner(from, &source);
  if (target >= 0 && source >= 0 && target != source) {
    return Note(cudaMemcpyPeerAsync(to, target, from, source, num_bytes,
                                    HandleOf(stream)),
                absl::StrCat("cudaMemcpyPeerAsync of ", num_bytes,
                             " bytes from GPU ", source, " to GPU ", target),
                stream.gpu);
  }
  return Note(
      cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDefault, HandleOf(stream)),
      absl::StrCat("cudaMemcpyAsync of ", num_bytes, " bytes"), stream.gpu);
}

absl::Status CudaRuntime::CallHost(StatusCallback call, GpuStream stream) {
  CudaHostCalls& calls = CudaHostCalls::Get();
  void* const added = calls.Add(this, stream.gpu, std::move(call));
  // Checks after Add(): an error that Note() reports earlier is seen here.
  absl::Status status = FirstError(stream.gpu);
  if (status.ok()) {
    const OnGpu on_gpu(stream.gpu);
    status = Note(on_gpu.error(), "cudaSetDevice", stream.gpu);
    if (status.ok()) {
      status =
          Note(cudaLaunchHostFunc(HandleOf(stream), &CudaHostCalls::Run, added),
               "cudaLaunchHostFunc", stream.gpu);
    }
  }
  if (!status.ok()) calls.Fail(added, status);
  return status;
}

absl::Status CudaRuntime::LaunchReduce(const GpuReduction& reduction,
                                       GpuStream stream) {
  const absl::Status status = CheckReduction(reduction);
  if (!status.ok() || reduction.num_elements == 0) return status;
  ASSIGN_OR_RETURN(const auto found, Find(stream.gpu));
  const OnGpu on_gpu(stream.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", stream.gpu));
  const gpu::ReduceArguments arguments = gpu::PlanReduce(reduction);
  const size_t num_items =
      gpu::NumItems(arguments, gpu::kPackBytes / SizeOf(reduction.dtype));
  const unsigned num_blocks = gpu::NumBlocks(
      num_items, found->MostBlocks(reduction.kind, reduction.dtype));
  const cudaError_t error = gpu::WithReduction(
      reduction.kind, reduction.dtype, [&](auto format, auto op) {
        return gpu::LaunchReduce<decltype(format), decltype(op)>(
            arguments, num_blocks, HandleOf(stream));
      });
  return Note(error,
              absl::StrCat("cudaLaunchKernel of ", Name(reduction.kind), " of ",
                           Name(reduction.dtype)),
              stream.gpu);
}

absl::Status CudaRuntime::LaunchCopy(const GpuCopy& copy, GpuStream stream) {
  const absl::Status status = CheckCopy(copy);
  if (!status.ok() || copy.num_bytes == 0) return status;
  ASSIGN_OR_RETURN(const auto found, Find(stream.gpu));
  const OnGpu on_gpu(stream.gpu);
  RETURN_IF_ERROR(Note(on_gpu.error(), "cudaSetDevice", stream.gpu));
  const gpu::CopyArguments arguments = gpu::PlanCopy(copy);
  const unsigned num_blocks = gpu::NumBlocks(
      gpu::NumItems(arguments), found->MostBlocksOfCopy(arguments.word_bytes));
  const cudaError_t error = gpu::WithWord(arguments.word_bytes, [&](auto word) {
    return gpu::LaunchCopy<decltype(word)>(arguments, num_blocks,
                                           HandleOf(stream));
  });
  return Note(error, "cudaLaunchKernel of a copy", stream.gpu);
}

absl::Status CudaRuntime::Note(cudaError_t error, absl::string_view call,
                               int gpu) {
  absl::Status status = CudaStatus(error, call, gpu);
  if (!SpoilsGpu(error) || !HasFailed(gpu)) return status;
  {
    MutexLock lock(&mu_);
    spoilt_.emplace(gpu, status);
  }
  CudaHostCalls::Get().FailAllOf(this, gpu, status);
  return status;
}

// Counts a GPU that was never opened as failed, without asking it.
bool CudaRuntime::HasFailed(int gpu) {
  std::shared_ptr<const CudaGpu> opened;
  {
    MutexLock lock(&mu_);
    const auto found = gpus_.find(gpu);
    if (found == gpus_.end()) return true;
    opened = found->second;
  }
  return opened->Query(gpu) != cudaSuccess;
}

absl::Status CudaRuntime::FirstError(int gpu) {
  MutexLock lock(&mu_);
  const auto found = spoilt_.find(gpu);
  return found == spoilt_.end() ? absl::OkStatus() : found->second;
}

absl::StatusOr<std::shared_ptr<const CudaGpu>> CudaRuntime::Find(int gpu) {
  {
    MutexLock lock(&mu_);
    const auto known = gpus_.find(gpu);
    if (known != gpus_.end()) return known->second;
  }
  // Opens without the lock, because the driver may wait. If two threads open
  // the same GPU, the second result is dropped.
  absl::StatusOr<std::shared_ptr<const CudaGpu>> opened =
      CudaGpu::Open(gpu, options_.kept_bytes);
  if (!opened.ok()) return opened;
  MutexLock lock(&mu_);
  return gpus_.emplace(gpu, *opened).first->second;
}

std::unique_ptr<GpuRuntime> MakeCudaRuntime(const CudaRuntimeOptions& options) {
  return std::make_unique<CudaRuntime>(options);
}

}  // namespace tutti
