#ifndef TUTTI_GPU_NCCL_NCCL_HERE_H_
#define TUTTI_GPU_NCCL_NCCL_HERE_H_

#include <memory>

#include "absl/status/statusor.h"

namespace tutti {

class NcclRuntime;

// Whether this was built with NCCL's header.
bool HasNccl();

// NCCL of this machine, opened for good. Errors: UNAVAILABLE with the loader's
// text; FAILED_PRECONDITION for a library that is too old or lacks a function,
// and for an environment in which it cannot serve; UNIMPLEMENTED if !HasNccl().
absl::StatusOr<std::shared_ptr<NcclRuntime>> NcclHere();

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_HERE_H_
