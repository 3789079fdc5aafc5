#ifndef TUTTI_RESOLVERS_LOCAL_PARAM_RESOLVER_LOCAL_H_
#define TUTTI_RESOLVERS_LOCAL_PARAM_RESOLVER_LOCAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "framework/base/mutex.h"
#include "resolvers/local/group_builder.h"
#include "resolvers/local/waiting_calls.h"
#include "tutti/params.h"
#include "tutti/selection.h"

namespace tutti {

// Every group's leader: the resolver for groups whose members are all in this
// process and, where a cluster's tasks send their members' calls here, of all
// groups. Implementations complete a group and an instance on the thread of the
// member that came last, with no lock held.
//
// Groups stay until they are ended; so does the error of one that failed. An
// instance is forgotten at the earliest when all its members have asked for it
// equally often and others of `max_entries` / 2 entries were asked for since.
// An executor that remembers an instance does not ask.
class ParamResolverLocal
    : public ParamResolverInterface,
      public std::enable_shared_from_this<ParamResolverLocal> {
 public:
  struct Options {
    SelectionPolicy policy;

    // Device indices of a task, as in ConfiguredRankOrder(); empty: the ring
    // follows the links.
    std::vector<int> ring_order;

    // How much the instances of all groups may take before some are forgotten:
    // an entry for each member, and one for each of CollInstanceParams::rows.
    // An entry is about 250 bytes.
    size_t max_entries = size_t{1} << 19;

    // The task that this process is ("/job:worker/replica:0/task:3"): the
    // devices of others are not local. Empty: all devices are.
    std::string task_name;

    // What members of other tasks may make this one keep: groups and instances
    // that are not settled, and groups in all. Entries: eight times
    // `max_entries`.
    size_t max_unsettled = 1024;
    size_t max_groups = size_t{1} << 16;

    // Runs, with no lock held, before the members' calls are answered, when a
    // group ends that had been formed, but not by EndGeneration() or EndTask():
    // members in other tasks may use it.
    std::function<void(const CollGroupParams& group,
                       const absl::Status& reason)>
        formed_group_failed;

    // Runs, with no lock held, when has_new_groups() has changed. May be null.
    std::function<void()> new_groups_changed;
  };

  // How far what others say of generations may be ahead of what is known here,
  // as a leader counts on from there: what ends; twice as far what has ended,
  // as the members say that took such a word.
  static constexpr uint64_t kMaxGenerationsAhead = uint64_t{1} << 40;

  // A call of any task's member. A cancelled wait leaves nothing behind.
  struct MemberCall {
    DeviceAttributes device;
    std::shared_ptr<const CollectiveRequest> request;
    std::shared_ptr<Cancellation> cancellation;

    // As in WaitingCall. The group that is formed is of a generation later than
    // all of its members say have ended.
    uint64_t ended_generation = 0;
    uint64_t living_generation = 0;
    bool asks_once = false;
    bool is_remote = false;
  };

  static std::shared_ptr<ParamResolverLocal> Create(Options options);
  ~ParamResolverLocal() override;

  void CompleteParamsAsync(const DeviceAttributes& device,
                           std::shared_ptr<const CollectiveRequest> request,
                           CallNumber number,
                           std::shared_ptr<Cancellation> cancellation,
                           Done done) override ABSL_LOCKS_EXCLUDED(mu_);
  std::string DescribeWaiting(const CollectiveRequest& request) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndGroup(GroupKey group_key, absl::Status reason) override
      ABSL_LOCKS_EXCLUDED(mu_);

  // As CompleteParamsAsync(). More errors: ABORTED if the generation that the
  // member lives in is not led here any more; RESOURCE_EXHAUSTED for a remote
  // member that would make this process keep too much; INVALID_ARGUMENT for one
  // that knows of a generation that cannot be.
  void Join(MemberCall member, absl::AnyInvocable<void(LeaderAnswer) &&> done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the group unless it is of a later generation: one that is being formed
  // becomes that.
  void EndGeneration(GroupKey group_key, uint64_t generation,
                     absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the group if a device of the task waits for it, or is in it.
  void EndAwaited(GroupKey group_key, absl::string_view task_name,
                  absl::Status reason) ABSL_LOCKS_EXCLUDED(mu_);

  // The process is gone: ends the groups that its devices are in, and its calls
  // to others. With incarnation 0, any process of the task.
  void EndTask(absl::string_view task_name, uint64_t incarnation,
               const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  // The tasks that live have so many devices: who wants to form a group with
  // more members gets the reason for which there are no more, at once.
  void SetDevicesLeft(int64_t num_devices, absl::Status reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether there is a group with members that do not know of the others: it
  // waits for some, or for one to come to an instance where others are.
  bool has_new_groups() ABSL_LOCKS_EXCLUDED(mu_);

  // Ends all groups. What waits here may hold who made it wait: so nobody is
  // held for ever.
  void EndAll(const absl::Status& reason) ABSL_LOCKS_EXCLUDED(mu_);

  bool HasGroup(GroupKey group_key) ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t last_generation() ABSL_LOCKS_EXCLUDED(mu_);

  // All its members have come, and none of them is of the task.
  bool IsFormedWithout(GroupKey group_key, absl::string_view task_name)
      ABSL_LOCKS_EXCLUDED(mu_);
  size_t num_groups() ABSL_LOCKS_EXCLUDED(mu_);
  size_t num_instances() ABSL_LOCKS_EXCLUDED(mu_);
  size_t num_entries() ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t num_calls() ABSL_LOCKS_EXCLUDED(mu_);  // That reached an instance.

 private:
  struct Instance {
    size_t num_entries = 0;

    // In rank order; null for who has not come. Fixed once all have.
    std::vector<std::shared_ptr<const CollectiveRequest>> requests;
    int num_arrived = 0;
    bool all_arrived() const {
      return num_arrived == static_cast<int>(requests.size());
    }
    WaitingCalls waiting;

    // In rank order, once completed.
    std::vector<std::shared_ptr<const CollectiveParams>> completed;

    // By rank; without calls that left before all had arrived.
    std::vector<uint64_t> num_calls;
    uint64_t last_used = 0;
  };
  using InstancePtr = std::shared_ptr<Instance>;

  struct Group {
    Group(std::vector<int> ring_order, uint64_t drawn_generation)
        : builder(std::move(ring_order)), generation(drawn_generation) {}
    GroupBuilder builder;
    uint64_t generation;
    absl::Status status;  // What it failed with, if it did.
    WaitingCalls waiting;
    bool is_new = false;  // Not all that wait in it know who is in it.

    // Set when the last member comes: from then on none can leave.
    std::shared_ptr<Cancellation> cancellation;
    bool is_forming() const { return status.ok() && cancellation == nullptr; }

    // Once formed; fixed.
    std::shared_ptr<const CollGroupParams> params;
    std::shared_ptr<const CollTaskParams> task;
    absl::flat_hash_map<std::string, int> rank_of_device;
    absl::flat_hash_map<InstanceKey, InstancePtr> instances;
  };
  using GroupPtr = std::shared_ptr<Group>;

  // What to do once the lock is given up.
  struct Outbox {
    // Calls to implementations; each adds what comes of it.
    std::vector<absl::AnyInvocable<void(Outbox*) &&>> jobs;
    std::vector<std::pair<WaitingCallPtr, LeaderAnswer>> answers;
    bool new_groups_changed = false;
    std::vector<std::pair<std::shared_ptr<Cancellation>, absl::Status>>
        ended_groups;
    std::vector<std::pair<std::shared_ptr<const CollGroupParams>, absl::Status>>
        failed_groups;

    // Freed here: others may have handed in what runs when it ends.
    std::vector<std::shared_ptr<const void>> dropped;
  };

  explicit ParamResolverLocal(Options options);

  void Deliver(Outbox outbox);
  void SetNew(Group& group, Outbox* outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetOld(Group& group, Outbox* outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnCancelled(const WaitingCallPtr& call, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Jobs.
  void FormGroup(const GroupPtr& group, std::shared_ptr<CollGroupParams> params,
                 Outbox* outbox) ABSL_LOCKS_EXCLUDED(mu_);
  void SettleInstance(const GroupPtr& group, InstanceKey key,
                      const InstancePtr& instance, Outbox* outbox)
      ABSL_LOCKS_EXCLUDED(mu_);

  absl::Status CheckEndedGeneration(const WaitingCall& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Arrive(const WaitingCallPtr& call, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void LeaveEndedGeneration(const WaitingCall& call, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<GroupPtr> FindOrAddGroup(const WaitingCall& call,
                                          Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckRoom(const WaitingCall& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsAwaitedBy(const Group& group, absl::string_view task_name) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsFormedWith(const Group& group, absl::string_view task_name,
                    uint64_t incarnation = 0) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropGroup(GroupKey key, absl::Status reason, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status BeginForming(const GroupPtr& group, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(Group& group, absl::Status status, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ArriveAtInstance(const GroupPtr& group, const WaitingCallPtr& call,
                        Outbox* outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<InstancePtr> FindOrAddInstance(Group& group,
                                                const WaitingCall& call,
                                                Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropInstance(Group& group, InstanceKey key, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool LeaveGroup(Group& group, const WaitingCall& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool LeaveInstance(Group& group, const WaitingCall& call, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CountOut(const Instance& instance) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetOldInstances(Outbox* outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  Mutex mu_;
  uint64_t last_generation_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t num_calls_ ABSL_GUARDED_BY(mu_) = 0;
  size_t num_entries_ ABSL_GUARDED_BY(mu_) = 0;
  size_t num_unsettled_ ABSL_GUARDED_BY(mu_) = 0;  // Groups and instances.
  size_t num_new_ ABSL_GUARDED_BY(mu_) = 0;        // Groups.
  int64_t num_devices_left_ ABSL_GUARDED_BY(mu_) = kMaxGroupSize;
  absl::Status reason_for_no_more_ ABSL_GUARDED_BY(mu_);
  size_t next_sweep_ ABSL_GUARDED_BY(mu_);  // At so many entries.
  absl::flat_hash_map<GroupKey, GroupPtr> groups_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_PARAM_RESOLVER_LOCAL_H_
