#include "absl/status/status.h"
#include "gpu/suite/nccl_here.h"

namespace tutti {

absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclHere() {
  return absl::UnimplementedError("the suite was built without nccl.h");
}

}  // namespace tutti
