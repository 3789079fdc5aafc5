#ifndef TUTTI_GPU_SUITE_NCCL_HERE_H_
#define TUTTI_GPU_SUITE_NCCL_HERE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "gpu/nccl/nccl_runtime.h"

namespace tutti {

// The NCCL of this machine, for good. Errors: as DlopenNcclRuntime::Open();
// UNIMPLEMENTED where this was built without NCCL's header.
absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclHere();

}  // namespace tutti

#endif  // TUTTI_GPU_SUITE_NCCL_HERE_H_
