#ifndef TUTTI_GPU_NCCL_NCCL_FINALIZATION_H_
#define TUTTI_GPU_NCCL_NCCL_FINALIZATION_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Frees this process's ends of a communicator when nothing of it is on a
// stream: finalizes and then destroys them. Checks NCCL's progress by the
// environment's clock, never on a waiting thread, except if communicators block
// (NcclRuntime::WhyBlocking()). Aborts ends that fail, or are not finalized
// after kLongest, e.g. because another process of the host does not end them.
//
// Nobody waits for it. Lives until all ends are freed, or until the environment
// is destroyed. Calls that may wait for a GPU are works of the environment's
// queue.
class NcclFinalization : public std::enable_shared_from_this<NcclFinalization> {
 public:
  // Delays between checks: the first, doubled each time, up to the last.
  // Guesses, not measured.
  static constexpr absl::Duration kFirstLook = DefaultTime("NCCL end look");
  static constexpr absl::Duration kLastLook = DefaultTime("NCCL end looks");
  static constexpr absl::Duration kLongest = DefaultTime("NCCL end");

  // Returns at once.
  static void Start(std::shared_ptr<NcclRuntime> nccl,
                    std::vector<NcclComm> comms,
                    const Environment& environment);

 private:
  NcclFinalization(std::shared_ptr<NcclRuntime> nccl,
                   std::vector<NcclComm> comms, const Environment& environment);

  // Each step schedules the next: only one thread at a time runs them.
  void Finalize();
  void Look();
  void Destroy();
  void Abort();

  void Schedule(void (NcclFinalization::*next)());

  const std::shared_ptr<NcclRuntime> nccl_;
  const std::vector<NcclComm> comms_;
  const Environment environment_;
  const absl::Time latest_;
  absl::Duration look_after_ = kFirstLook;
};

}  // namespace tutti

#endif  // TUTTI_GPU_NCCL_NCCL_FINALIZATION_H_
