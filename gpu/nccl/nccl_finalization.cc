#include "gpu/nccl/nccl_finalization.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"

namespace tutti {

void NcclFinalization::Start(std::shared_ptr<NcclRuntime> nccl,
                             std::vector<NcclComm> comms,
                             const Environment& environment) {
  // The constructor is private.
  const std::shared_ptr<NcclFinalization> finalization(
      new NcclFinalization(std::move(nccl), std::move(comms), environment));
  finalization->Schedule(&NcclFinalization::Finalize);
}

NcclFinalization::NcclFinalization(std::shared_ptr<NcclRuntime> nccl,
                                   std::vector<NcclComm> comms,
                                   const Environment& environment)
    : nccl_(std::move(nccl)),
      comms_(std::move(comms)),
      environment_(environment),
      latest_(environment.clock->Now() + kLongest) {}

void NcclFinalization::Schedule(void (NcclFinalization::*next)()) {
  environment_.queue->Schedule(
      [self = shared_from_this(), next] { (self.get()->*next)(); });
}

void NcclFinalization::Finalize() {
  if (!nccl_->Finalize(comms_).ok()) return Abort();
  Look();
}

void NcclFinalization::Look() {
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

void NcclFinalization::Destroy() { nccl_->Destroy(comms_).IgnoreError(); }

void NcclFinalization::Abort() { nccl_->Abort(comms_).IgnoreError(); }

}  // namespace tutti
