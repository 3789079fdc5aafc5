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

// Answer of a leader to a member of a group.
struct LeaderAnswer {
  // Without an instance for a call that wants the group alone.
  absl::StatusOr<std::shared_ptr<const CollectiveParams>> params;

  // Generation of the group if that generation has failed; else 0.
  uint64_t failed_generation = 0;
};

// Member's call to its group's leader until the leader answers it.
struct WaitingCall {
  DeviceAttributes device;
  std::string device_name;
  std::shared_ptr<const CollectiveRequest> request;
  absl::AnyInvocable<void(LeaderAnswer) &&> done;

  // Generations of the group, as the member knows them: the newest ended one,
  // and the present one. 0: none.
  uint64_t ended_generation = 0;
  uint64_t living_generation = 0;

  // The member wants the group alone, not an instance.
  bool group_only = false;

  // The member remembers the answer. All its calls before the answer count as
  // one.
  bool requests_once = false;

  bool is_remote = false;
  uint64_t place = 0;  // Place in the WaitingCalls that holds the call.
};
using WaitingCallPtr = std::shared_ptr<WaitingCall>;

// Calls that wait for the same event, in order of arrival. Removing one needs
// no search. Not thread-safe.
class WaitingCalls {
 public:
  void Add(WaitingCallPtr call);

  // Returns false if `call` is not in the list.
  bool Remove(const WaitingCall& call);

  bool HasCallOf(absl::string_view device_name) const {
    return num_of_device_.contains(device_name);
  }

  bool HasCallOfTask(absl::string_view task_name) const;

  // Removes and returns the calls of the task's devices with that incarnation;
  // 0 means any incarnation.
  std::vector<WaitingCallPtr> TakeCallsOfTask(absl::string_view task_name,
                                              uint64_t incarnation);

  // Removes and returns all calls.
  std::vector<WaitingCallPtr> TakeAll();

 private:
  uint64_t last_place_ = 0;
  std::map<uint64_t, WaitingCallPtr> calls_;  // Keyed by place.
  absl::flat_hash_map<std::string, int> num_of_device_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_WAITING_CALLS_H_
