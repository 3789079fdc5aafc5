#ifndef TUTTI_RESOLVERS_LOCAL_WAITING_CALLS_H_
#define TUTTI_RESOLVERS_LOCAL_WAITING_CALLS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/params.h"

namespace tutti {

// What a leader says to a member of a group.
struct LeaderAnswer {
  absl::StatusOr<std::shared_ptr<const CollectiveParams>> params;

  // Of the group, if it is the generation that has failed; else 0.
  uint64_t failed_generation = 0;
};

// A member's call to its group's leader until it is answered.
struct WaitingCall {
  DeviceAttributes device;
  std::string device_name;
  std::shared_ptr<const CollectiveRequest> request;
  absl::AnyInvocable<void(LeaderAnswer) &&> done;

  // Generations of the group as the member knows them: the newest one that has
  // ended, and the one that it is in. 0: none.
  uint64_t ended_generation = 0;
  uint64_t living_generation = 0;

  // The member remembers what it is told: calls that came before it was are
  // one.
  bool asks_once = false;

  bool is_remote = false;
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

  bool HasCallOfTask(absl::string_view task_name) const;

  // Those of the task's devices with that incarnation, or any if it is 0, which
  // leave.
  std::vector<WaitingCallPtr> TakeCallsOfTask(absl::string_view task_name,
                                              uint64_t incarnation);

  // All of them; none is left.
  std::vector<WaitingCallPtr> TakeAll();

 private:
  uint64_t last_place_ = 0;
  std::map<uint64_t, WaitingCallPtr> calls_;  // By place.
  absl::flat_hash_map<std::string, int> num_of_device_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_WAITING_CALLS_H_
