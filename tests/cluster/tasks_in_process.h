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

// For tests: several tasks in one process. Each has executors of its own, and
// with them all that belongs to a process, but for one resolver that leads all
// and one meeting place of their transfers; so what a test does not show is the
// distributed resolver and a transport.
//
// Thread-safe. The executors may outlive it.
class TasksInProcess {
 public:
  TasksInProcess();

  // Those of the task whose devices they are. Errors: as
  // CollectiveExecutorMgr::Create.
  absl::StatusOr<std::unique_ptr<CollectiveExecutorMgr>> NewExecutors(
      const Environment& environment, const DeviceManager* devices);

  // Ends the present generation of the group, or of all, on all tasks.
  void EndGroup(GroupKey group, absl::Status reason);
  void EndAll(const absl::Status& reason);

 private:
  class Steps;

  const std::shared_ptr<ParamResolverLocal> leader_;
  const std::shared_ptr<Steps> steps_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_TASKS_IN_PROCESS_H_
