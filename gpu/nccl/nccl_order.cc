#include "gpu/nccl/nccl_order.h"

#include "absl/strings/str_cat.h"
#include "framework/base/digest.h"

namespace tutti {

std::string ToString(const NcclLaunchId& launch) {
  return absl::StrCat("launch ", launch.number, ", instance ", launch.instance,
                      ", execution ", launch.execution);
}

NcclTicket NcclOrder::Next(const ExecKey& execution) {
  if (in_step_.try_emplace(execution.step, 0).second) {
    steps_.push_back(execution.step);
    if (steps_.size() > kMaxSteps) {
      in_step_.erase(steps_.front());
      steps_.pop_front();
    }
  }
  for (const auto value :
       {static_cast<uint64_t>(execution.step),
        static_cast<uint64_t>(execution.instance), execution.execution}) {
    digest_ = AddToDigest(digest_, value);
  }
  NcclTicket ticket;
  ticket.launch = {.number = ++number_,
                   .digest = digest_,
                   .instance = execution.instance,
                   .execution = execution.execution};
  ticket.key = execution;
  ticket.key.instance = kNcclOrderInstance;
  ticket.key.execution = ++in_step_[execution.step];
  return ticket;
}

}  // namespace tutti
