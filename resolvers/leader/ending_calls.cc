#include "resolvers/leader/ending_calls.h"

#include <string>

namespace tutti {

void EndingCalls::Begin(const InstanceId& id, const absl::Status& error) {
  OfInstance& calls = calls_[id];
  ++calls.num_calls;
  calls.error = std::string(error.message());
}

void EndingCalls::End(const InstanceId& id) {
  const auto found = calls_.find(id);
  if (--found->second.num_calls == 0) calls_.erase(found);
}

std::string EndingCalls::ErrorOf(const InstanceId& id) const {
  const auto found = calls_.find(id);
  return found == calls_.end() ? "" : found->second.error;
}

}  // namespace tutti
