#ifndef TUTTI_TESTS_CLUSTER_TASKS_IN_PROCESS_H_
#define TUTTI_TESTS_CLUSTER_TASKS_IN_PROCESS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "resolvers/local/param_resolver_local.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"

namespace tutti {

// For tests: several tasks in one process. Each task has separate executors,
// with all their per-process objects. The tasks share one resolver, which
// leads, and one rendezvous for transfers. Therefore such tests cover neither
// the distributed resolver nor a transport.
//
// Thread-safe. The executors may outlive the object.
class TasksInProcess {
 public:
  TasksInProcess();

  // Executors of the task that owns `devices`. Errors: as
  // CollectiveExecutorMgr::Create.
  absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>> NewExecutors(
      const Environment& environment, const DeviceManager* devices);

  // Ends the current generation of the group, or of all groups, on all tasks.
  void EndGroup(GroupKey group, absl::Status reason);
  void EndAll(const absl::Status& reason);

 private:
  class Steps;

  const std::shared_ptr<ParamResolverLocal> leader_;
  const std::shared_ptr<Steps> steps_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_TASKS_IN_PROCESS_H_
