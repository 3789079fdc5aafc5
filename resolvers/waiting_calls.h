#ifndef TUTTI_RESOLVERS_WAITING_CALLS_H_
#define TUTTI_RESOLVERS_WAITING_CALLS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "framework/collective_request.h"
#include "framework/device.h"
#include "framework/param_resolver.h"

namespace tutti {

// A call of ParamResolverInterface::CompleteParamsAsync until it is answered.
struct WaitingCall {
  DeviceAttributes device;
  std::string device_name;
  std::shared_ptr<const CollectiveRequest> request;
  ParamResolverInterface::Done done;
  uint64_t place = 0;  // In the WaitingCalls that have it.
};
using WaitingCallPtr = std::shared_ptr<WaitingCall>;

// Calls that wait for the same, in the order in which they came. One may leave
// without a search among all. Not thread-safe.
class WaitingCalls {
 public:
  void Add(WaitingCallPtr call);

  // False if `call` is not among them.
  bool Remove(const WaitingCall& call);

  bool HasCallOf(absl::string_view device_name) const {
    return num_of_device_.contains(device_name);
  }

  // All of them; none is left.
  std::vector<WaitingCallPtr> TakeAll();

 private:
  uint64_t last_place_ = 0;
  std::map<uint64_t, WaitingCallPtr> calls_;  // By place.
  absl::flat_hash_map<std::string, int> num_of_device_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_WAITING_CALLS_H_
