#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

template <class Owner, typename Handle>
absl::StatusOr<Owner> Owned(GpuRuntime& runtime,
                            const absl::StatusOr<Handle>& handle) {
  if (!handle.ok()) return handle.status();
  return Owner(&runtime, *handle);
}

}  // namespace

absl::StatusOr<OwnedGpuStream> NewStream(GpuRuntime& runtime, int gpu) {
  return Owned<OwnedGpuStream>(runtime, runtime.CreateStream(gpu));
}

absl::StatusOr<OwnedGpuEvent> NewEvent(GpuRuntime& runtime, int gpu) {
  return Owned<OwnedGpuEvent>(runtime, runtime.CreateEvent(gpu));
}

absl::StatusOr<OwnedPinnedMemory> NewPinnedMemory(GpuRuntime& runtime,
                                                  size_t num_bytes, int gpu) {
  return Owned<OwnedPinnedMemory>(runtime,
                                  runtime.AllocatePinned(num_bytes, gpu));
}

absl::StatusOr<OwnedPinnedMemory> NewPinnedMemoryOnGpu(GpuRuntime& runtime,
                                                       size_t num_bytes,
                                                       int gpu) {
  return Owned<OwnedPinnedMemory>(runtime,
                                  runtime.AllocatePinnedOnGpu(num_bytes, gpu));
}

}  // namespace tutti
