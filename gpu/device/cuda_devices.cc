#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "gpu/device/cuda_device_options.h"
#include "gpu/runtime/pinned_pool.h"
#include "tutti/device.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

int StrengthOf(PeerLink link) {
  switch (link) {
    case PeerLink::kNone:
      return 0;
    case PeerLink::kBus:
      return 1;
    case PeerLink::kNvLink:
      return 2;
  }
  return 0;
}

absl::Status CheckOptions(const CudaDevicesOptions& options) {
  if (options.runtime == nullptr || options.environment.queue == nullptr ||
      options.environment.random == nullptr) {
    return absl::InvalidArgumentError(
        "devices on GPUs need a GPU runtime, a queue and random numbers");
  }
  if (options.devices_per_gpu < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is at least one device on a GPU, not ",
                     options.devices_per_gpu));
  }
  return absl::OkStatus();
}

// Link strengths from `gpu` to all GPUs; 0 without a link, or beyond CUDA's
// limit of peers. Kernels on `gpu` may then use the memory of linked GPUs.
absl::StatusOr<std::vector<int>> Connect(GpuRuntime& runtime, int gpu,
                                         int num_gpus) {
  std::vector<int> strengths(num_gpus, CudaDevice::kSameGpuStrength);
  for (int peer = 0; peer < num_gpus; ++peer) {
    if (peer == gpu) continue;
    ASSIGN_OR_RETURN(const PeerLink link, runtime.LinkBetween(gpu, peer));
    strengths[peer] = StrengthOf(link);
    if (strengths[peer] == 0) continue;
    const absl::Status status = runtime.EnablePeerAccess(gpu, peer);
    if (absl::IsOutOfRange(status)) {
      strengths[peer] = 0;
    } else if (!status.ok()) {
      return status;
    }
  }
  return strengths;
}

// Locality of the device with this index.
DeviceLocality LocalityOf(int index, int devices_per_gpu,
                          const std::vector<int>& strengths) {
  DeviceLocality locality;
  const int num_devices = static_cast<int>(strengths.size()) * devices_per_gpu;
  for (int other = 0; other < num_devices; ++other) {
    const int strength = strengths[other / devices_per_gpu];
    if (other == index || strength == 0) continue;
    locality.links.push_back({.device_index = other, .strength = strength});
  }
  return locality;
}

DeviceAttributes AttributesOf(const CudaDevicesOptions& options, int index,
                              const std::vector<int>& strengths) {
  return {.name = {.job = options.job,
                   .replica = options.replica,
                   .task = options.task,
                   .type = CudaDevice::kType,
                   .index = index},
          .locality = LocalityOf(index, options.devices_per_gpu, strengths),
          .incarnation = options.incarnation.has_value()
                             ? *options.incarnation
                             : options.environment.random->Next()};
}

// Returns null if no transport may use memory of the GPU.
absl::StatusOr<std::shared_ptr<PinnedPool>> LandingOn(
    const CudaDevicesOptions& options, int gpu, int num_gpus) {
  if (!options.opens_memory.value_or(num_gpus == 1)) return nullptr;
  return PinnedPool::Create({.runtime = options.runtime,
                             .gpu = gpu,
                             .is_on_gpu = true,
                             .kept_bytes = options.most_landing_bytes,
                             .most_bytes = options.most_landing_bytes});
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<CudaDevice>>> CreateCudaDevices(
    const CudaDevicesOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  GpuRuntime& runtime = *options.runtime;
  ASSIGN_OR_RETURN(const int num_gpus, runtime.NumGpus());
  if (num_gpus == 0) {
    return absl::NotFoundError("this host has a driver for GPUs, but no GPU");
  }
  std::vector<std::unique_ptr<CudaDevice>> devices;
  for (int gpu = 0; gpu < num_gpus; ++gpu) {
    ASSIGN_OR_RETURN(const auto strengths, Connect(runtime, gpu, num_gpus));
    ASSIGN_OR_RETURN(
        const auto staging,
        PinnedPool::Create({.runtime = &runtime,
                            .gpu = gpu,
                            .kept_bytes = options.kept_staging_bytes}));
    ASSIGN_OR_RETURN(const auto landing, LandingOn(options, gpu, num_gpus));
    for (int i = 0; i < options.devices_per_gpu; ++i) {
      const int index = static_cast<int>(devices.size());
      ASSIGN_OR_RETURN(
          auto device,
          CudaDevice::Create(
              {.attributes = AttributesOf(options, index, strengths),
               .runtime = &runtime,
               .gpu = gpu,
               .environment = options.environment,
               .freed_ahead_bytes = options.freed_ahead_bytes,
               .staging = staging,
               .landing = landing,
               .nccl = options.nccl}));
      devices.push_back(std::move(device));
    }
  }
  return devices;
}

}  // namespace tutti
