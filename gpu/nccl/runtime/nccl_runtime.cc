#include "gpu/nccl/runtime/nccl_runtime.h"

namespace tutti {

absl::StatusOr<bool> AreReady(NcclRuntime& nccl,
                              absl::Span<const NcclComm> comms) {
  bool are_ready = true;
  // Calls IsReady() on all: a failed end may keep another from getting ready.
  for (const NcclComm comm : comms) {
    const absl::StatusOr<bool> is_ready = nccl.IsReady(comm);
    if (!is_ready.ok()) return is_ready;
    are_ready = are_ready && *is_ready;
  }
  return are_ready;
}

}  // namespace tutti
