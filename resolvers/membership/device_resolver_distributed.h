#ifndef TUTTI_RESOLVERS_MEMBERSHIP_DEVICE_RESOLVER_DISTRIBUTED_H_
#define TUTTI_RESOLVERS_MEMBERSHIP_DEVICE_RESOLVER_DISTRIBUTED_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/params.h"

namespace tutti {

// Knows the devices of all tasks that have said which they have.
//
// The devices of a task that restarted are other ones, though they have the
// same names: asking for them is FAILED_PRECONDITION until Accept(), so that
// nobody takes one for the other.
class DeviceResolverDistributed : public DeviceResolverInterface {
 public:
  // `devices` are this task's.
  DeviceResolverDistributed(ClusterSpec cluster, const DeviceManager& devices);

  // More errors: INVALID_ARGUMENT for a name that is none; UNAVAILABLE for a
  // task that has not been heard of yet; FAILED_PRECONDITION.
  absl::StatusOr<DeviceAttributes> GetDeviceAttributes(
      absl::string_view full_name) const override ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::vector<DeviceAttributes>> GetTaskDevices(
      absl::string_view task_name) const override ABSL_LOCKS_EXCLUDED(mu_);

  // Of the task's process; none if it has not been heard of.
  std::optional<int64_t> NumDevices(int task) const ABSL_LOCKS_EXCLUDED(mu_);

  // The devices of another task's process.
  void Set(int task, uint64_t incarnation,
           std::vector<DeviceAttributes> devices) ABSL_LOCKS_EXCLUDED(mu_);

  // The process that the task now is, is known for what it is: a group was
  // formed with it. Nothing happens if it is another one.
  void Accept(int task, uint64_t incarnation) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Task {
    uint64_t incarnation = 0;
    uint64_t accepted = 0;  // The incarnation that was answered so far.
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
