#ifndef TUTTI_FRAMEWORK_DEVICE_RESOLVER_H_
#define TUTTI_FRAMEWORK_DEVICE_RESOLVER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/device.h"

namespace tutti {

// Device name -> attributes. Thread-safe.
class DeviceResolverInterface {
 public:
  virtual ~DeviceResolverInterface() = default;

  // Errors: NOT_FOUND for a name that is not known here.
  virtual absl::StatusOr<DeviceAttributes> GetDeviceAttributes(
      absl::string_view full_name) const = 0;

  // All devices of a task ("/job:worker/replica:0/task:3"). Errors: NOT_FOUND
  // if it has none.
  virtual absl::StatusOr<std::vector<DeviceAttributes>> GetTaskDevices(
      absl::string_view task_name) const = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DEVICE_RESOLVER_H_
