#include "gpu/nccl/nccl_order.h"

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// The mixing of splitmix64: the same on all machines.
uint64_t Mix(uint64_t digest, uint64_t value) {
  uint64_t z = digest + 0x9e3779b97f4a7c15 + value;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

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
    digest_ = Mix(digest_, value);
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
