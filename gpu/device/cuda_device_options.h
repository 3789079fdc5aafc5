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
  Environment environment;  // Its queue.

  // 256 MiB: some steps' temporaries of a large model, 0.3 % of an H100.
  int64_t freed_ahead_bytes = int64_t{256} << 20;
  std::shared_ptr<PinnedPool> staging;  // Any number of devices' own.

  // On the GPU, where bytes come of a network that writes there, and that
  // reads the GPU's memory; any number of devices' own. Null: none may.
  std::shared_ptr<PinnedPool> landing;

  // What runs collectives of NCCL here; null: none does.
  std::shared_ptr<NcclRuntime> nccl;
};

}  // namespace tutti

#endif  // TUTTI_GPU_DEVICE_CUDA_DEVICE_OPTIONS_H_
