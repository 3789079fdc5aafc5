#include "gpu/nccl/nccl_here.h"

#include "gpu/nccl/dlopen_nccl_runtime.h"

namespace tutti {

bool HasNccl() { return true; }

absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclHere() {
  return DlopenNcclRuntime::Open();
}

}  // namespace tutti
