#ifndef TUTTI_GPU_NCCL_RUNTIME_DLOPEN_NCCL_RUNTIME_H_
#define TUTTI_GPU_NCCL_RUNTIME_DLOPEN_NCCL_RUNTIME_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "gpu/nccl/runtime/nccl_runtime.h"

namespace tutti {

// Opens NCCL of this machine when the program runs, not linked. The library
// stays open for ever, because its threads may.
//
// Communicators do not block, except with an older NCCL, or if the environment
// demands it (NCCL_COMM_BLOCKING=1). Errors: UNAVAILABLE with the loader's
// text. FAILED_PRECONDITION for a library that is too old or lacks a function.
// FAILED_PRECONDITION also for an environment that makes an older library not
// block (NCCL_COMM_BLOCKING=0), or makes all communicators meet in one place
// (NCCL_COMM_ID).
absl::StatusOr<std::shared_ptr<NcclRuntime>> OpenNccl(
    const std::string& library);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_RUNTIME_DLOPEN_NCCL_RUNTIME_H_
