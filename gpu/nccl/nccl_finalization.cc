#include "gpu/nccl/nccl_finalization.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/environment.h"

namespace tutti {
namespace {

class NcclFinalization : public std::enable_shared_from_this<NcclFinalization> {
 public:
  // Delays between checks: the first, doubled each time, up to the last.
  // Guesses, not measured.
  static constexpr absl::Duration kFirstLook = DefaultTime("NCCL end look");
  static constexpr absl::Duration kLastLook = DefaultTime("NCCL end looks");

  NcclFinalization(std::shared_ptr<NcclRuntime> nccl,
                   std::vector<NcclComm> comms, const Environment& environment)
      : nccl_(std::move(nccl)),
        comms_(std::move(comms)),
        environment_(environment),
        latest_(environment.clock->Now() + kLongestNcclEnd) {}

  // Returns at once.
  void Start() { Schedule(&NcclFinalization::Finalize); }

 private:
  // Each step schedules the next: only one thread at a time runs them.
  void Finalize() {
    if (!nccl_->Finalize(comms_).ok()) return Abort();
    Look();
  }

  void Look() {
    const absl::StatusOr<bool> are_ready = AreReady(*nccl_, comms_);
    if (!are_ready.ok()) return Schedule(&NcclFinalization::Abort);
    if (*are_ready) return Schedule(&NcclFinalization::Destroy);
    const absl::Time now = environment_.clock->Now();
    if (now >= latest_) return Schedule(&NcclFinalization::Abort);
    const absl::Time next = std::min(now + look_after_, latest_);
    look_after_ = std::min(2 * look_after_, kLastLook);
    environment_.clock->CallAt(next,
                               [self = shared_from_this()] { self->Look(); });
  }

  void Destroy() { nccl_->Destroy(comms_).IgnoreError(); }

  void Abort() { nccl_->Abort(comms_).IgnoreError(); }

  void Schedule(void (NcclFinalization::*next)()) {
    environment_.queue->Schedule(
        [self = shared_from_this(), next] { (self.get()->*next)(); });
  }

  const std::shared_ptr<NcclRuntime> nccl_;
  const std::vector<NcclComm> comms_;
  const Environment environment_;
  const absl::Time latest_;
  absl::Duration look_after_ = kFirstLook;
};

}  // namespace

void FinalizeNccl(std::shared_ptr<NcclRuntime> nccl,
                  std::vector<NcclComm> comms, const Environment& environment) {
  std::make_shared<NcclFinalization>(std::move(nccl), std::move(comms),
                                     environment)
      ->Start();
}

}  // namespace tutti
