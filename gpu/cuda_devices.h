#ifndef TUTTI_GPU_CUDA_DEVICES_H_
#define TUTTI_GPU_CUDA_DEVICES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/environment.h"
#include "gpu/cuda_device.h"
#include "gpu/gpu_runtime.h"

namespace tutti {

class NcclRuntime;

struct CudaDevicesOptions {
  // Outlives the devices and their tensors, and, where a transport uses memory
  // of the GPUs, whoever may do so still when they have gone: MpiRuntime.
  GpuRuntime* runtime = nullptr;
  Environment environment;

  // The task that the devices are of.
  std::string job = "localhost";
  int replica = 0;
  int task = 0;

  // Of all devices (DeviceAttributes): that of the process in a cluster
  // (ClusterRuntime::DeviceFactory). Nothing: a random one each.
  std::optional<uint64_t> incarnation;

  // Devices on each GPU: more than one to try groups on a single GPU.
  int devices_per_gpu = 1;

  // Bound of each device on memory freed ahead: see CudaDevice. 256 MiB: some
  // steps' temporaries of a large model, 0.3 % of an H100.
  int64_t freed_ahead_bytes = int64_t{256} << 20;

  // Pinned memory that the devices of a GPU share and keep unused, at most, for
  // each GPU.
  size_t kept_staging_bytes = size_t{256} << 20;

  // Whether a transport that can (MpiRuntime::is_cuda_aware()) reads and writes
  // memory of the GPUs itself: landings of AllocatePinnedOnGpu(), not tensors.
  // Not set: where there is one GPU, because Open MPI works with a single one
  // in a process.
  std::optional<bool> opens_memory;

  // Of these landings on each GPU: so much is given out at a time at most, and
  // kept for the next time. A step for which not enough is left, or that is
  // larger, passes through the host as a whole.
  size_t most_landing_bytes = size_t{256} << 20;

  // For the collectives of NCCL, which need one device per GPU: opened by
  // NcclHere(). Null: the devices do not have them.
  std::shared_ptr<NcclRuntime> nccl;
};

// Devices GPU:0, GPU:1, ... of a task: `devices_per_gpu` on each GPU of this
// host, those of one GPU next to each other. Kernels on each may use the memory
// of those that it has a link to: of strength 3 on the same GPU, 2 over NVLink,
// 1 over PCI. Those beyond what CUDA allows a GPU, eight others in some hosts,
// count as without a link.
//
// Errors: INVALID_ARGUMENT for a count below one or a part that is missing;
// NOT_FOUND if there is no GPU; as GpuRuntime, where there is no driver.
absl::StatusOr<std::vector<std::unique_ptr<CudaDevice>>> CreateCudaDevices(
    const CudaDevicesOptions& options);

}  // namespace tutti

#endif  // TUTTI_GPU_CUDA_DEVICES_H_
