#include "gpu/suite/nccl_here.h"

#include "gpu/nccl/dlopen_nccl_runtime.h"

namespace tutti {

absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclHere() {
  return DlopenNcclRuntime::Open();
}

}  // namespace tutti
