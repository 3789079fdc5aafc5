#ifndef TUTTI_GPU_DEVICE_CUDA_DEVICE_OPTIONS_H_
#define TUTTI_GPU_DEVICE_CUDA_DEVICE_OPTIONS_H_

#include <cstdint>
#include <memory>

#include "gpu/runtime/pinned_pool.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

struct CudaDevice::Options {
  DeviceAttributes attributes;  // Libraries and unit are filled in.
  GpuRuntime* runtime = nullptr;
  int gpu = 0;
  Environment environment;  // Its queue runs callbacks.

  // Bound on memory freed ahead, see CudaDevice. 256 MiB: temporaries of some
  // steps of a large model, 0.3 % of an H100.
  int64_t freed_ahead_bytes = int64_t{256} << 20;
  std::shared_ptr<PinnedPool> staging;  // Several devices may share it.

  // Memory on the GPU that networks may write and read. Several devices may
  // share it. Null: networks may not.
  std::shared_ptr<PinnedPool> landing;

  // Runs NCCL's collectives; null: this device has none.
  std::shared_ptr<NcclRuntime> nccl;
};

}  // namespace tutti

#endif  // TUTTI_GPU_DEVICE_CUDA_DEVICE_OPTIONS_H_
