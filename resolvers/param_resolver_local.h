#ifndef TUTTI_RESOLVERS_PARAM_RESOLVER_LOCAL_H_
#define TUTTI_RESOLVERS_PARAM_RESOLVER_LOCAL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/mutex.h"
#include "framework/param_resolver.h"
#include "framework/registry.h"
#include "resolvers/group_builder.h"

namespace tutti {

// The resolver for groups whose members are all in this process: it is every
// group's leader. Groups stay until EndGroup(). An instance stays until all its
// members have asked for it equally often and more than `max_instances` others
// were asked for since.
class ParamResolverLocal
    : public ParamResolverInterface,
      public std::enable_shared_from_this<ParamResolverLocal> {
 public:
  struct Options {
    const CollectiveRegistry* registry = &CollectiveRegistry::Global();

    // Device indices of a task, as in ConfiguredRankOrder(); empty: the ring
    // follows the links.
    std::vector<int> ring_order;

    size_t max_instances = 16384;  // Of all groups.
  };

  static std::shared_ptr<ParamResolverLocal> Create(Options options);
  ~ParamResolverLocal() override;

  void CompleteParamsAsync(const DeviceAttributes& device,
                           std::shared_ptr<const CollectiveRequest> request,
                           std::shared_ptr<Cancellation> cancellation,
                           Done done) override ABSL_LOCKS_EXCLUDED(mu_);
  std::string DescribeWaiting(const CollectiveRequest& request) override
      ABSL_LOCKS_EXCLUDED(mu_);
  void EndGroup(GroupKey group_key, absl::Status reason) override
      ABSL_LOCKS_EXCLUDED(mu_);

  size_t num_groups() ABSL_LOCKS_EXCLUDED(mu_);
  size_t num_instances() ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t num_calls() ABSL_LOCKS_EXCLUDED(mu_);  // That reached an instance.

 private:
  using Answer = absl::StatusOr<std::shared_ptr<const CollectiveParams>>;

  // One call that waits.
  struct Waiter {
    DeviceAttributes device;
    std::string device_name;
    std::shared_ptr<const CollectiveRequest> request;
    Done done;
  };
  using WaiterPtr = std::shared_ptr<Waiter>;

  struct Instance {
    // In rank order; null for who has not come.
    std::vector<std::shared_ptr<const CollectiveRequest>> requests;
    int num_arrived = 0;
    std::vector<WaiterPtr> waiting;

    // In rank order, once complete.
    std::vector<std::shared_ptr<const CollectiveParams>> completed;
    std::vector<uint64_t> num_served;
    uint64_t last_used = 0;
  };

  struct Group {
    explicit Group(std::vector<int> ring_order)
        : builder(std::move(ring_order)) {}
    GroupBuilder builder;
    absl::Status status;  // What ended the group; it stays until EndGroup().
    std::vector<WaiterPtr> waiting;

    // Once complete.
    std::shared_ptr<const CollGroupParams> params;
    std::shared_ptr<const CollTaskParams> task;
    absl::flat_hash_map<std::string, int> rank_of_device;
    absl::flat_hash_map<InstanceKey, Instance> instances;
  };

  // What to do once the lock is given up.
  struct Outbox {
    std::vector<std::pair<WaiterPtr, Answer>> answers;
    std::shared_ptr<Cancellation> ended_group;
    absl::Status reason;
  };

  explicit ParamResolverLocal(Options options);

  static void Send(Outbox outbox);
  void OnCancelled(const WaiterPtr& waiter, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  void Arrive(const WaiterPtr& waiter, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Complete(Group& group, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(Group& group, absl::Status status, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ArriveAtInstance(Group& group, const WaiterPtr& waiter, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CompleteWaiting(Group& group, InstanceKey key, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CompleteInstanceOf(Group& group, Instance& instance)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool LeaveGroup(Group& group, const WaiterPtr& waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool LeaveInstance(Group& group, const WaiterPtr& waiter)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetOldInstances() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  Mutex mu_;
  uint64_t last_generation_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t num_calls_ ABSL_GUARDED_BY(mu_) = 0;
  size_t num_instances_ ABSL_GUARDED_BY(mu_) = 0;
  size_t next_sweep_ ABSL_GUARDED_BY(mu_) = 0;
  absl::flat_hash_map<GroupKey, std::unique_ptr<Group>> groups_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_PARAM_RESOLVER_LOCAL_H_
