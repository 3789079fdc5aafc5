#ifndef TUTTI_GPU_NCCL_NCCL_FINALIZATION_H_
#define TUTTI_GPU_NCCL_NCCL_FINALIZATION_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// How the ends that this process has of a communicator go when nothing of it is
// on a stream: they are finalized, and then destroyed. NCCL is asked how far it
// is through the environment's clock, never on a waiting thread, but where
// communicators block (NcclRuntime::WhyBlocking()). What fails, or is not
// finalized after kLongest, as where another process of the host does not end
// it too, is aborted.
//
// Nobody waits for it. It lives until all is freed, or goes with the
// environment; what may wait for a GPU is work of the environment's queue.
class NcclFinalization : public std::enable_shared_from_this<NcclFinalization> {
 public:
  // How soon NCCL is asked again: at first, doubled each time, and at last.
  // Guesses, not measured.
  static constexpr absl::Duration kFirstLook = absl::Milliseconds(1);
  static constexpr absl::Duration kLastLook = absl::Milliseconds(100);
  static constexpr absl::Duration kLongest = absl::Seconds(5);

  // Returns at once.
  static void Start(std::shared_ptr<NcclRuntime> nccl,
                    std::vector<NcclComm> comms,
                    const Environment& environment);

 private:
  NcclFinalization(std::shared_ptr<NcclRuntime> nccl,
                   std::vector<NcclComm> comms, const Environment& environment);

  // Each leads to the next, so that one thread at a time is here.
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
