#ifndef TUTTI_RESOLVERS_MEMBERSHIP_DEVICE_RESOLVER_DISTRIBUTED_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_DEVICE_RESOLVER_DISTRIBUTED_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/params.h"

namespace tutti {

// Devices of all tasks that have sent their device lists.
//
// The devices of a restarted task differ from those of its former process,
// though they have the same names. Requests for them return FAILED_PRECONDITION
// until Accept(), so that no caller mistakes one for the other.
class DeviceResolverDistributed : public DeviceResolverInterface {
 public:
  // `devices`: the devices of this task.
  DeviceResolverDistributed(ClusterSpec cluster, const DeviceManager& devices);

  // More errors: INVALID_ARGUMENT for an invalid name; UNAVAILABLE for a task
  // that has sent no list yet; FAILED_PRECONDITION for a restarted task.
  absl::StatusOr<DeviceAttributes> GetDeviceAttributes(
      absl::string_view full_name) const override ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::vector<DeviceAttributes>> GetTaskDevices(
      absl::string_view task_name) const override ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the number of devices of the task's process, or none if it has sent
  // no list.
  std::optional<int64_t> NumDevices(int task) const ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the task's process and its devices; incarnation 0 if it has sent no
  // list.
  std::pair<uint64_t, std::vector<DeviceAttributes>> DevicesOf(int task) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns the number of tasks that have sent a list, this one included.
  int num_tasks() const ABSL_LOCKS_EXCLUDED(mu_);

  // Sets the devices of another task's process.
  void Set(int task, uint64_t incarnation,
           std::vector<DeviceAttributes> devices) ABSL_LOCKS_EXCLUDED(mu_);

  // Accepts the task's restarted process, because a group was formed with it.
  // Does nothing if the task has another process now.
  void Accept(int task, uint64_t incarnation) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Task {
    uint64_t incarnation = 0;
    uint64_t accepted = 0;  // Incarnation returned so far.
    std::vector<DeviceAttributes> devices;
  };

  absl::StatusOr<const Task*> Find(int task) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ClusterSpec cluster_;
  mutable Mutex mu_;
  absl::flat_hash_map<int, Task> tasks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_MEMBERSHIP_DEVICE_RESOLVER_DISTRIBUTED_H_
