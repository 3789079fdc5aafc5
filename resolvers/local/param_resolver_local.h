#ifndef TUTTI_RESOLVERS_LOCAL_PARAM_RESOLVER_LOCAL_H_
#define TUTTI_RESOLVERS_LOCAL_PARAM_RESOLVER_LOCAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "framework/base/mutex.h"
#include "resolvers/local/led_groups.h"
#include "resolvers/local/waiting_calls.h"
#include "tutti/params.h"
#include "tutti/selection.h"

namespace tutti {

// Leader of groups. It leads the groups whose members are all in this process.
// Where a cluster's tasks send their members' calls here, it leads all groups.
// Implementations complete a group or an instance on the thread of the last
// member to come, with no lock held.
//
// A group stays until it is ended; the error of a failed group stays as long.
// The resolver forgets an instance when two conditions hold: all its members
// have requested it equally often, and others of `max_entries` / 2 entries were
// requested since. Executors that remember an instance send no request.
class ParamResolverLocal
    : public ParamResolverInterface,
      public std::enable_shared_from_this<ParamResolverLocal> {
 public:
  struct Options {
    SelectionPolicy policy;

    // Largest number of entries of all instances before the resolver forgets
    // some. An instance has one entry for each member and one for each number
    // in CollInstanceParams::rows. An entry is about 250 bytes.
    size_t max_entries = size_t{1} << 19;

    // Task of this process ("/job:worker/replica:0/task:3"). Devices of other
    // tasks are not local. Empty: all devices are local.
    std::string task_name;

    // Limit on the groups that members of other tasks can make this process
    // keep. The limit on entries is eight times `max_entries`. What is not
    // settled has a call that waits for it; LeaderService limits those.
    size_t max_groups = size_t{1} << 16;

    // Runs when a formed group ends otherwise than by EndGeneration() or
    // EndTask(): members in other tasks may still use it. Runs with no lock
    // held, before the members' calls are answered.
    std::function<void(const CollGroupParams& group,
                       const absl::Status& reason)>
        formed_group_failed;

    // Runs, with no lock held, when has_new_groups() has changed. May be null.
    std::function<void()> new_groups_changed;
  };

  // Call of a member of any task. A cancelled wait leaves nothing behind.
  struct MemberCall {
    DeviceAttributes device;
    std::shared_ptr<const CollectiveRequest> request;
    std::shared_ptr<Cancellation> cancellation;

    // Same as in WaitingCall. A new group gets a later generation than any
    // ended generation that its members report.
    uint64_t ended_generation = 0;
    uint64_t living_generation = 0;
    bool group_only = false;
    bool requests_once = false;
    bool is_remote = false;
  };

  static std::shared_ptr<ParamResolverLocal> Create(Options options);
  ~ParamResolverLocal() override;

  void CompleteGroupAsync(const DeviceAttributes& device,
                          const CollectiveRequest& request,
                          std::shared_ptr<Cancellation> cancellation,
                          GroupDone done) override ABSL_LOCKS_EXCLUDED(mu_);
  void CompleteInstanceAsync(const DeviceAttributes& device,
                             std::shared_ptr<const CollectiveRequest> request,
                             CallNumber number,
                             std::shared_ptr<Cancellation> cancellation,
                             Done done) override ABSL_LOCKS_EXCLUDED(mu_);
  std::string DescribeWaiting(const CollectiveRequest& request) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndGroup(GroupKey group_key, absl::Status reason) override
      ABSL_LOCKS_EXCLUDED(mu_);

  // Handles a call like CompleteInstanceAsync(). More errors: ABORTED if the
  // generation that the member lives in is not led here; RESOURCE_EXHAUSTED for
  // a remote member that would make this process keep too much;
  // INVALID_ARGUMENT for a member with an impossible generation.
  void Join(MemberCall member, absl::AnyInvocable<void(LeaderAnswer) &&> done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the group unless its generation is later than `generation`. A forming
  // group becomes a later generation instead.
  void EndGeneration(GroupKey group_key, uint64_t generation,
                     absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the group if a device of the task is in it, or waits for it.
  void EndAwaited(GroupKey group_key, absl::string_view task_name,
                  absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the groups and the waiting calls of the task's devices: their process
  // is gone. Incarnation 0: any process of the task.
  void EndTask(absl::string_view task_name, uint64_t incarnation,
               const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Sets how many devices the living tasks have. A request for a larger group
  // fails at once with `reason`.
  void SetDevicesLeft(int64_t num_devices, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns true if some group has members that do not know the group yet. Such
  // a group waits for members, or for a member to come to an instance where
  // others are.
  bool has_new_groups() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return groups_.num_new() > 0;
  }

  // Ends all groups. A waiting call may hold the resolver's owner: afterwards
  // no such call is left.
  void EndAll(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  bool HasGroup(GroupKey group_key) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return groups_.Find(group_key) != nullptr;
  }
  uint64_t last_generation() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return groups_.last_generation();
  }

  // Returns true if all members of the group have come, and none of them is of
  // the task.
  bool IsFormedWithout(GroupKey group_key, absl::string_view task_name)
      ABSL_LOCKS_EXCLUDED(mu_);
  size_t num_groups() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return groups_.num_groups();
  }
  size_t num_instances() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return groups_.num_instances();
  }
  size_t num_entries() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return groups_.num_entries();
  }

  // Returns the number of calls that reached an instance.
  uint64_t num_calls() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return groups_.num_calls();
  }

 private:
  explicit ParamResolverLocal(Options options);

  void Deliver(LeaderOutbox outbox);
  void OnCancelled(const std::weak_ptr<WaitingCall>& call,
                   const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Jobs of a LeaderOutbox.
  void FormGroup(const LedGroupPtr& group,
                 std::shared_ptr<CollGroupParams> params, LeaderOutbox* outbox)
      ABSL_LOCKS_EXCLUDED(mu_);
  void SettleInstance(const LedGroupPtr& group, InstanceKey key,
                      const LedInstancePtr& instance, LeaderOutbox* outbox)
      ABSL_LOCKS_EXCLUDED(mu_);

  void Arrive(const WaitingCallPtr& call, LeaderOutbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status BeginForming(const LedGroupPtr& group, LeaderOutbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ArriveAtInstance(const LedGroupPtr& group, const WaitingCallPtr& call,
                        LeaderOutbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  Mutex mu_;
  LedGroups groups_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_PARAM_RESOLVER_LOCAL_H_
