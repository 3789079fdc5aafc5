#include "absl/status/status.h"
#include "gpu/runtime/cuda_found.h"
#include "tools/cluster/gpus.h"

namespace tutti {

GpuReport GpusHere() {
  return {.cuda = CudaFound(),
          .nccl = NcclFound(),
          .why_no_nccl = "Tutti was built without CUDA",
          .why_none = "Tutti was built without CUDA"};
}

absl::StatusOr<DeviceMaker> DeviceMakerFor(absl::string_view device_type,
                                           const Environment& /*environment*/) {
  if (device_type == "CPU") return DeviceMaker();
  return absl::FailedPreconditionError(
      "--device gpu: Tutti was built without CUDA");
}

}  // namespace tutti
