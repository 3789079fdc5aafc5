#ifndef TUTTI_RESOLVERS_LOCAL_LED_GROUP_H_
#define TUTTI_RESOLVERS_LOCAL_LED_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "resolvers/local/group_builder.h"
#include "resolvers/local/waiting_calls.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {

// Instance of a group that is led here: the members' requests, the calls that
// wait for the others, and later the params. Guarded by the leader's mutex.
struct LedInstance {
  size_t num_entries = 0;

  // In rank order; null for a member that has not come. Fixed once all have
  // come.
  std::vector<std::shared_ptr<const CollectiveRequest>> requests;
  int num_arrived = 0;
  bool all_arrived() const {
    return num_arrived == static_cast<int>(requests.size());
  }
  WaitingCalls waiting;

  // In rank order; set once completed.
  std::vector<std::shared_ptr<const CollectiveParams>> completed;

  // Indexed by rank. Does not count calls that left before all had arrived.
  std::vector<uint64_t> num_calls;
  uint64_t last_used = 0;
};
using LedInstancePtr = std::shared_ptr<LedInstance>;

// Generation of a group that is led here: its members, the calls that wait for
// the others, and later its instances. Guarded by the leader's mutex.
struct LedGroup {
  explicit LedGroup(uint64_t drawn_generation) : generation(drawn_generation) {}

  GroupBuilder builder;
  uint64_t generation;
  absl::Status status;  // Error that the group failed with, or OK.
  WaitingCalls waiting;
  bool is_new = false;  // Some waiting member does not know the group yet.

  // Set when the last member comes: from then on no member can leave.
  std::shared_ptr<Cancellation> cancellation;
  bool is_forming() const { return status.ok() && cancellation == nullptr; }

  // Set once the group is formed, then fixed.
  std::shared_ptr<const CollGroupParams> params;
  std::shared_ptr<const CollTaskParams> task;
  absl::flat_hash_map<std::string, int> rank_of_device;
  absl::flat_hash_map<InstanceKey, LedInstancePtr> instances;

  // Returns true if a call of a device of the task waits here.
  bool IsAwaitedBy(absl::string_view task_name) const;

  // Returns true if all members have come, and at least one is of the task with
  // that incarnation; 0 means any incarnation.
  bool IsFormedWith(absl::string_view task_name,
                    uint64_t incarnation = 0) const;

  // Returns the members that a call of the instance waits for, or "".
  std::string DescribeWaiting(InstanceKey key) const;
};
using LedGroupPtr = std::shared_ptr<LedGroup>;

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_LED_GROUP_H_
