#include "gpu/nccl/runtime/dlopen_nccl_runtime.h"
#include "tutti/gpu_devices.h"

namespace tutti {

bool HasNccl() { return true; }

absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclHere() {
  return DlopenNcclRuntime::Open();
}

}  // namespace tutti
