#ifndef TUTTI_RESOLVERS_LOCAL_LED_GROUPS_H_
#define TUTTI_RESOLVERS_LOCAL_LED_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "resolvers/local/group_builder.h"
#include "resolvers/local/waiting_calls.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {

// Bound on how far generations in messages may be ahead of the generations
// known here. Leaders count on from them. An ended generation in a call may be
// twice as far ahead: its member may have taken such a message.
inline constexpr uint64_t kMaxGenerationsAhead = uint64_t{1} << 40;

// Work that a leader of groups does after it has released its lock.
struct LeaderOutbox {
  // Calls to implementations; each adds its results to the outbox.
  std::vector<absl::AnyInvocable<void(LeaderOutbox*) &&>> jobs;
  std::vector<std::pair<WaitingCallPtr, LeaderAnswer>> answers;
  bool new_groups_changed = false;
  std::vector<std::pair<std::shared_ptr<Cancellation>, absl::Status>>
      ended_groups;
  std::vector<std::pair<std::shared_ptr<const CollGroupParams>, absl::Status>>
      failed_groups;

  // Freed with the outbox, without the lock: their destructors may run foreign
  // code.
  std::vector<std::shared_ptr<const void>> dropped;
};

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

// Table of the groups that are led here, of their instances, and of the room
// that both take. Draws the generations.
//
// Not thread-safe: guarded by the mutex of ParamResolverLocal. Runs no callback
// and frees nothing foreign; adds that work to the outbox.
class LedGroups {
 public:
  // Same as in ParamResolverLocal::Options.
  struct Limits {
    size_t max_entries = 0;
    size_t max_groups = 0;
  };

  explicit LedGroups(const Limits& limits)
      : limits_(limits), next_sweep_(limits.max_entries) {}

  // Returns null if there is no such group. A group that Drop() removes lives
  // as long as the outbox.
  LedGroup* Find(GroupKey key) const;
  std::vector<GroupKey> Keys() const;

  // Returns the group that the call is for. Errors: those of
  // ParamResolverLocal::Join(), and the reason of SetDevicesLeft().
  absl::StatusOr<LedGroupPtr> FindOrAdd(const WaitingCall& call,
                                        LeaderOutbox* outbox);

  // Errors: INVALID_ARGUMENT for a generation that is too far ahead.
  absl::Status CheckEndedGeneration(const WaitingCall& call) const;

  // Drops a generation that has ended, as the member may know before this
  // process.
  void LeaveEndedGeneration(const WaitingCall& call, LeaderOutbox* outbox);

  // Makes a forming group a generation later than `ended`.
  void Renew(LedGroup& group, uint64_t ended);

  // Sets the largest size of a group, and drops the forming groups that are
  // larger. Later ones get `reason` from FindOrAdd().
  void SetDevicesLeft(int64_t num_devices, absl::Status reason,
                      LeaderOutbox* outbox);

  // Completes a group. REQUIRES: all members have come.
  void SetFormed(LedGroup& group, std::shared_ptr<const CollGroupParams> params,
                 std::shared_ptr<const CollTaskParams> task,
                 LeaderOutbox* outbox);

  // Answers the group's calls with `status`, drops its instances, and keeps the
  // status.
  void Fail(LedGroup& group, absl::Status status, LeaderOutbox* outbox);

  // Fails and removes a group. REQUIRES: there is such a group.
  void Drop(GroupKey key, absl::Status reason, LeaderOutbox* outbox);

  // Drops the groups of the task's devices, and answers their waiting calls.
  // Incarnation 0: any process of the task.
  void DropTask(absl::string_view task_name, uint64_t incarnation,
                const absl::Status& reason, LeaderOutbox* outbox);

  // Answers the call, or adds it to its instance, if it wants one. Returns the
  // instance if the call is the first one of the last member to come; else
  // null. REQUIRES: the group is formed.
  LedInstancePtr ArriveAtInstance(LedGroup& group, const WaitingCallPtr& call,
                                  LeaderOutbox* outbox);

  // Completes an instance.
  void SetCompleted(LedGroup& group, LedInstance& instance,
                    std::vector<std::shared_ptr<const CollectiveParams>> params,
                    LeaderOutbox* outbox);

  // REQUIRES: the group has the instance.
  void DropInstance(LedGroup& group, InstanceKey key, LeaderOutbox* outbox);

  // Answers a waiting call with `reason`, and drops its group if no member is
  // left in it. Returns false, and does nothing, if the call does not wait.
  bool Leave(const WaitingCallPtr& call, const absl::Status& reason,
             LeaderOutbox* outbox);

  uint64_t last_generation() const { return last_generation_; }
  size_t num_groups() const { return groups_.size(); }
  size_t num_instances() const;
  size_t num_entries() const { return num_entries_; }
  size_t num_new() const { return num_new_; }
  uint64_t num_calls() const { return num_calls_; }

 private:
  void SetNew(LedGroup& group, LeaderOutbox* outbox);
  void SetOld(LedGroup& group, LeaderOutbox* outbox);

  absl::StatusOr<LedInstancePtr> FindOrAddInstance(LedGroup& group,
                                                   const WaitingCall& call,
                                                   LeaderOutbox* outbox);
  bool LeaveGroup(LedGroup& group, const WaitingCall& call);
  bool LeaveInstance(LedGroup& group, const WaitingCall& call,
                     LeaderOutbox* outbox);

  // Keeps the most recently used idle instances. Idle: no call waits for it,
  // and all members requested it equally often.
  void ForgetOldInstances(LeaderOutbox* outbox);

  const Limits limits_;
  uint64_t last_generation_ = 0;
  uint64_t num_calls_ = 0;
  size_t num_entries_ = 0;
  size_t num_new_ = 0;  // Counts groups.
  int64_t num_devices_left_ = kMaxGroupSize;
  absl::Status reason_for_no_more_;
  size_t next_sweep_;  // Number of entries.
  absl::flat_hash_map<GroupKey, LedGroupPtr> groups_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_LED_GROUPS_H_
