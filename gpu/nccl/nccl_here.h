#ifndef TUTTI_GPU_NCCL_NCCL_HERE_H_
#define TUTTI_GPU_NCCL_NCCL_HERE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "gpu/nccl/nccl_runtime.h"

namespace tutti {

// Whether this was built with NCCL's header.
bool HasNccl();

// The NCCL of this machine, for good. Errors: as DlopenNcclRuntime::Open();
// UNIMPLEMENTED if !HasNccl().
absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclHere();

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_HERE_H_
