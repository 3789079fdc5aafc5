#ifndef TUTTI_FRAMEWORK_DEVICE_MANAGER_H_
#define TUTTI_FRAMEWORK_DEVICE_MANAGER_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/device.h"
#include "framework/environment.h"

namespace tutti {

// Owns the devices of this process and finds them by name. Immutable after
// construction, so thread-safe; a Device* is valid as long as the manager.
class DeviceManager {
 public:
  // Errors: INVALID_ARGUMENT for no device or a null one, ALREADY_EXISTS for
  // two of one name.
  static absl::StatusOr<std::unique_ptr<DeviceManager>> Create(
      std::vector<std::unique_ptr<Device>> devices);

  // CPU devices 0..n-1 of /job:localhost/replica:0/task:t for each t, in this
  // process, with incarnations from `random`. Several tasks serve to try a
  // layout without processes. Errors: INVALID_ARGUMENT for a count below one or
  // no `random`.
  static absl::StatusOr<std::unique_ptr<DeviceManager>> CreateCpu(
      int num_tasks, int devices_per_task, Random* random);

  DeviceManager(const DeviceManager&) = delete;
  DeviceManager& operator=(const DeviceManager&) = delete;

  // Errors: NOT_FOUND naming some of the known devices.
  absl::StatusOr<Device*> Find(absl::string_view full_name) const;

  // Whether it is one of these, not of another manager. Does not look at it.
  bool Owns(const Device* device) const { return known_.contains(device); }

  // In the order given to Create.
  const std::vector<Device*>& devices() const { return in_order_; }

 private:
  explicit DeviceManager(std::vector<std::unique_ptr<Device>> devices);

  std::vector<std::unique_ptr<Device>> owned_;
  std::vector<Device*> in_order_;
  absl::flat_hash_map<absl::string_view, Device*> by_name_;
  absl::flat_hash_set<const Device*> known_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DEVICE_MANAGER_H_
