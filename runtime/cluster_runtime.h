#ifndef TUTTI_RUNTIME_CLUSTER_RUNTIME_H_
#define TUTTI_RUNTIME_CLUSTER_RUNTIME_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/cluster_spec.h"
#include "framework/collective_executor_mgr.h"
#include "framework/device.h"
#include "framework/environment.h"
#include "framework/status_callback.h"
#include "remote/transport.h"

namespace tutti {

// All that one task of a cluster needs to run collectives with the devices of
// the other tasks: the transport, the resolvers, and an executor manager.
//
// Its way: Create(), Join(), collectives by manager(), Leave(), destruction. A
// task that ends without Leave() counts as lost for the others: what runs in
// groups with its devices fails there.
//
// Thread-safe.
class ClusterRuntime {
 public:
  // Makes the transport of this task, whose process has that incarnation.
  using TransportFactory =
      std::function<absl::StatusOr<std::shared_ptr<Transport>>(
          uint64_t incarnation)>;

  struct Options {
    ClusterSpec cluster;
    Environment environment;  // Its parts outlive the runtime and all calls.
    int devices_per_task = 1;
    TransportFactory make_transport;
  };

  // Begins to listen. Errors: INVALID_ARGUMENT; those of the transport.
  static absl::StatusOr<std::unique_ptr<ClusterRuntime>> Create(
      Options options);

  // Ends what has not ended, and blocks until the transport has.
  ~ClusterRuntime();
  ClusterRuntime(const ClusterRuntime&) = delete;
  ClusterRuntime& operator=(const ClusterRuntime&) = delete;

  // Waits until all tasks have been heard of. `progress` hears of the tasks that
  // are missing still, now and then. Errors: DEADLINE_EXCEEDED naming them;
  // FAILED_PRECONDITION or UNAUTHENTICATED if a task does not belong to this
  // cluster.
  void Join(absl::Time deadline,
            std::function<void(const std::vector<int>& missing)> progress,
            StatusCallback done);

  // Says that this task is done, and waits until all tasks that live have said
  // so: then none of them needs this one any more. Errors: DEADLINE_EXCEEDED
  // naming those that have not.
  void Leave(absl::Time deadline, StatusCallback done);

  const ClusterSpec& cluster() const;

  // Of this task, in the order of their indices.
  const std::vector<Device*>& devices() const;
  CollectiveExecutorMgr& manager();

  // Ends a step on all tasks; idempotent. What comes late for it ends with
  // ABORTED.
  void CleanupStep(int64_t step_id);

  // Ends the present generation of a group, on all tasks; the next collectives
  // of the group, on any task, form the next one, of another size if they like.
  void ReformGroup(GroupKey group_key, absl::Status reason);

 private:
  class Impl;
  explicit ClusterRuntime(std::shared_ptr<Impl> impl);

  const std::shared_ptr<Impl> impl_;
};

}  // namespace tutti

#endif  // TUTTI_RUNTIME_CLUSTER_RUNTIME_H_
