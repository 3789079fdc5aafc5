#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "gpu/runtime/cuda_found.h"
#include "gpu/runtime/cuda_runtime.h"
#include "tools/cluster/gpus.h"
#include "tools/cluster/party_devices.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

// Adds the names of all GPUs.
absl::Status AddNames(GpuRuntime& runtime, std::vector<std::string>* names) {
  ASSIGN_OR_RETURN(const int num_gpus, runtime.NumGpus());
  for (int gpu = 0; gpu < num_gpus; ++gpu) {
    ASSIGN_OR_RETURN(const GpuProperties properties, runtime.Properties(gpu));
    names->push_back(properties.name);
  }
  return names->empty() ? absl::NotFoundError("the driver knows of no GPU")
                        : absl::OkStatus();
}

}  // namespace

GpuReport GpusHere() {
  GpuReport report = {.has_cuda = true,
                      .cuda = CudaFound(),
                      .has_nccl = HasNccl(),
                      .nccl = NcclFound()};
  const auto nccl = NcclHere();
  if (nccl.ok()) {
    report.nccl_version = (*nccl)->Version();
    report.why_nccl_within_process = (*nccl)->WhyBlocking();
  }
  report.why_no_nccl = std::string(nccl.status().message());
  CudaRuntime runtime;
  const absl::Status status = AddNames(runtime, &report.names);
  report.why_none = std::string(status.message());
  return report;
}

absl::StatusOr<DeviceMaker> DeviceMakerFor(absl::string_view device_type,
                                           const Environment& environment) {
  if (device_type == "CPU") return DeviceMaker();
  const auto nccl = NcclHere();
  auto maker =
      GpuRanks(MakeCudaRuntime(), environment, nccl.ok() ? *nccl : nullptr);
  if (maker.ok()) return maker;
  return absl::FailedPreconditionError(
      absl::StrCat("--device gpu: ", maker.status().message()));
}

}  // namespace tutti
