#include "tools/cluster/party_devices.h"

#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

bool HasNoBytes(const Tensor& tensor) {
  return !tensor.is_set() || tensor.size_bytes() == 0;
}

absl::Span<const std::byte> BytesOf(const Tensor& tensor) {
  return {tensor.data(), tensor.size_bytes()};
}

// Waits until the stream's steps have run. Returns the first error.
absl::Status End(StepStream& steps, absl::Status status) {
  status.Update(
      Await([&](StatusCallback done) { steps.CallWhenOver(std::move(done)); }));
  return status;
}

}  // namespace

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

absl::StatusOr<Tensor> ToDevice(const Tensor& host, Device& device,
                                Clock& clock) {
  if (!host.is_set() || device.has_host_memory()) return host;
  absl::StatusOr<Tensor> tensor = device.Allocate(host.dtype(), host.shape());
  if (!tensor.ok() || HasNoBytes(host)) return tensor;
  ASSIGN_OR_RETURN(const auto steps, device.OpenSteps(clock));
  absl::Status status =
      steps->ReadHost(BytesOf(host), [&](const std::byte* bytes) {
        return steps->Copy(tensor->mutable_data(), bytes, host.size_bytes());
      });
  RETURN_IF_ERROR(End(*steps, std::move(status)));
  return tensor;
}

absl::StatusOr<Tensor> ToHost(const Tensor& tensor, Device& device,
                              Clock& clock) {
  if (!tensor.is_set() || device.has_host_memory()) return tensor;
  absl::StatusOr<Tensor> host =
      Tensor::Allocate(tensor.dtype(), tensor.shape());
  if (!host.ok() || HasNoBytes(tensor)) return host;
  ASSIGN_OR_RETURN(const auto steps, device.OpenSteps(clock));
  absl::Status status = Await([&](StatusCallback done) {
    steps->CopyToHost(
        BytesOf(tensor),
        [&host, done = std::move(done)](absl::StatusOr<Tensor> copy) mutable {
          if (copy.ok()) {
            std::memcpy(host->mutable_data(), copy->data(), copy->size_bytes());
          }
          const absl::Status copied = copy.status();
          copy = Tensor();  // Returns its memory to the device.
          std::move(done)(copied);
        });
  });
  RETURN_IF_ERROR(End(*steps, std::move(status)));
  return host;
}

}  // namespace tutti
