#include "resolvers/local/waiting_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {

void WaitingCalls::Add(WaitingCallPtr call) {
  call->place = ++last_place_;
  ++num_of_device_[call->device_name];
  calls_.emplace(call->place, std::move(call));
}

bool WaitingCalls::Remove(const WaitingCall& call) {
  const auto found = calls_.find(call.place);
  if (found == calls_.end() || found->second.get() != &call) return false;
  const auto num = num_of_device_.find(call.device_name);
  if (--num->second == 0) num_of_device_.erase(num);
  calls_.erase(found);
  return true;
}

bool WaitingCalls::HasCallOfTask(absl::string_view task_name) const {
  return std::any_of(calls_.begin(), calls_.end(), [&](const auto& entry) {
    return entry.second->device.name.TaskName() == task_name;
  });
}

std::vector<WaitingCallPtr> WaitingCalls::TakeCallsOfTask(
    absl::string_view task_name, uint64_t incarnation) {
  std::vector<WaitingCallPtr> taken;
  for (const auto& [place, call] : calls_) {
    const DeviceAttributes& device = call->device;
    if (incarnation != 0 && device.incarnation != incarnation) continue;
    if (device.name.TaskName() == task_name) taken.push_back(call);
  }
  for (const WaitingCallPtr& call : taken) Remove(*call);
  return taken;
}

std::vector<WaitingCallPtr> WaitingCalls::TakeAll() {
  std::vector<WaitingCallPtr> all;
  all.reserve(calls_.size());
  for (auto& [place, call] : calls_) all.push_back(std::move(call));
  calls_.clear();
  num_of_device_.clear();
  return all;
}

}  // namespace tutti
