#ifndef TUTTI_GPU_NCCL_NCCL_FINALIZATION_H_
#define TUTTI_GPU_NCCL_NCCL_FINALIZATION_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Longest time of a finalization.
inline constexpr absl::Duration kLongestNcclEnd = DefaultTime("NCCL end");

// Frees this process's ends of a communicator when nothing of it is on a
// stream: finalizes and then destroys them. Checks NCCL's progress by the
// environment's clock, never on a waiting thread, except if communicators block
// (NcclRuntime::WhyBlocking()). Aborts ends that fail, or are not finalized
// after kLongestNcclEnd, e.g. because another process of the host does not end
// them.
//
// Nobody waits for it. Lives until all ends are freed, or until the environment
// is destroyed. Calls that may wait for a GPU are works of the environment's
// queue.
void FinalizeNccl(std::shared_ptr<NcclRuntime> nccl,
                  std::vector<NcclComm> comms, const Environment& environment);

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_FINALIZATION_H_
