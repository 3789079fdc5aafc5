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
#include "absl/functional/any_invocable.h"
#include "framework/mutex.h"
#include "framework/param_resolver.h"
#include "framework/registry.h"
#include "resolvers/group_builder.h"
#include "resolvers/waiting_calls.h"

namespace tutti {

// The resolver for groups whose members are all in this process: it is every
// group's leader. Implementations complete a group and an instance on the
// thread of the member that came last, with no lock held.
//
// Groups stay until EndGroup(). An instance is forgotten at the earliest when
// all its members have asked for it equally often and others of
// `max_entries` / 2 entries were asked for since. An executor that remembers
// an instance does not ask.
class ParamResolverLocal
    : public ParamResolverInterface,
      public std::enable_shared_from_this<ParamResolverLocal> {
 public:
  struct Options {
    const CollectiveRegistry* registry = &CollectiveRegistry::Global();

    // Device indices of a task, as in ConfiguredRankOrder(); empty: the ring
    // follows the links.
    std::vector<int> ring_order;

    // How much the instances of all groups may take before some are forgotten:
    // an entry for each member, and one for each of CollInstanceParams::rows.
    // An entry is about 250 bytes.
    size_t max_entries = size_t{1} << 19;
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
  size_t num_entries() ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t num_calls() ABSL_LOCKS_EXCLUDED(mu_);  // That reached an instance.

 private:
  using Answer = absl::StatusOr<std::shared_ptr<const CollectiveParams>>;

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
    explicit Group(std::vector<int> ring_order)
        : builder(std::move(ring_order)) {}
    GroupBuilder builder;
    absl::Status status;  // What ended the group; it stays until EndGroup().
    WaitingCalls waiting;

    // Set when the last member comes: from then on none can leave.
    std::shared_ptr<Cancellation> cancellation;

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
    std::vector<std::pair<WaitingCallPtr, Answer>> answers;
    std::shared_ptr<Cancellation> ended_group;
    absl::Status reason;

    // Freed here: others may have handed in what runs when it ends.
    std::vector<std::shared_ptr<const void>> dropped;
  };

  explicit ParamResolverLocal(Options options);

  static void Deliver(Outbox outbox);
  void OnCancelled(const WaitingCallPtr& call, const absl::Status& reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Jobs.
  void FormGroup(const GroupPtr& group, std::shared_ptr<CollGroupParams> params,
                 Outbox* outbox) ABSL_LOCKS_EXCLUDED(mu_);
  void SettleInstance(const GroupPtr& group, InstanceKey key,
                      const InstancePtr& instance, Outbox* outbox)
      ABSL_LOCKS_EXCLUDED(mu_);

  void Arrive(const WaitingCallPtr& call, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status BeginForming(const GroupPtr& group, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(Group& group, absl::Status status, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ArriveAtInstance(const GroupPtr& group, const WaitingCallPtr& call,
                        Outbox* outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  InstancePtr FindOrAddInstance(Group& group, InstanceKey key, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropInstance(Group& group, InstanceKey key, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool LeaveGroup(Group& group, const WaitingCall& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool LeaveInstance(Group& group, const WaitingCall& call, Outbox* outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetOldInstances(Outbox* outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  Mutex mu_;
  uint64_t last_generation_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t num_calls_ ABSL_GUARDED_BY(mu_) = 0;
  size_t num_entries_ ABSL_GUARDED_BY(mu_) = 0;
  size_t next_sweep_ ABSL_GUARDED_BY(mu_);  // At so many entries.
  absl::flat_hash_map<GroupKey, GroupPtr> groups_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_PARAM_RESOLVER_LOCAL_H_
