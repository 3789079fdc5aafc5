#ifndef TUTTI_FRAMEWORK_CLUSTER_SPEC_H_
#define TUTTI_FRAMEWORK_CLUSTER_SPEC_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device_name.h"

namespace tutti {

// The tasks (processes) of a job and where they listen. Task i is
// "/job:JOB/replica:0/task:i". A value.
struct ClusterSpec {
  std::string job = "worker";
  std::vector<std::string> addresses;  // "host:port", by task.
  int this_task = 0;

  int num_tasks() const { return static_cast<int>(addresses.size()); }

  // "task 2 (host3:7000)"; just "task 9" of a number that no task has.
  std::string Label(int task) const;

  // "/job:worker/replica:0/task:2".
  std::string TaskName(int task) const;

  // Which task has the device. Errors: NOT_FOUND naming the job and the tasks
  // that there are.
  absl::StatusOr<int> TaskOf(const DeviceName& device) const;
};

// Errors: INVALID_ARGUMENT for no task, too many, an address that is empty, has
// no port or is there twice, a task that is not in the list, a job name that
// device names cannot have.
absl::Status Validate(const ClusterSpec& cluster);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CLUSTER_SPEC_H_
