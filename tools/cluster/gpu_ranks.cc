#include "tools/cluster/gpu_ranks.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/base/status_macros.h"
#include "tutti/device.h"

namespace tutti {

absl::StatusOr<DeviceMaker> GpuRanks(std::shared_ptr<GpuRuntime> runtime,
                                     const Environment& environment,
                                     std::shared_ptr<NcclRuntime> nccl) {
  const absl::StatusOr<int> num_gpus = runtime->NumGpus();
  if (!num_gpus.ok()) return num_gpus.status();
  if (*num_gpus == 0) return absl::NotFoundError("the driver knows of no GPU");
  return [runtime = std::move(runtime), environment, nccl = std::move(nccl),
          num_gpus = *num_gpus](const DevicesOfTask& task)
             -> absl::StatusOr<std::vector<std::unique_ptr<Device>>> {
    const int per_gpu = (task.num_devices + num_gpus - 1) / num_gpus;
    ASSIGN_OR_RETURN(auto made,
                     CreateCudaDevices({.runtime = runtime.get(),
                                        .environment = environment,
                                        .job = task.job,
                                        .task = task.task,
                                        .incarnation = task.incarnation,
                                        .devices_per_gpu = per_gpu,
                                        .nccl = nccl}));
    std::vector<std::unique_ptr<Device>> devices;
    for (int i = 0; i < task.num_devices; ++i) {
      const int gpu = (task.first_rank + i) % num_gpus;
      devices.push_back(
          std::move(made[static_cast<size_t>(gpu * per_gpu + i / num_gpus)]));
    }
    return devices;
  };
}

}  // namespace tutti
