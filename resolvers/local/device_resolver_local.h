#ifndef TUTTI_RESOLVERS_LOCAL_DEVICE_RESOLVER_LOCAL_H_
#define TUTTI_RESOLVERS_LOCAL_DEVICE_RESOLVER_LOCAL_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/device.h"
#include "tutti/params.h"

namespace tutti {

// Knows the devices of this process alone.
class DeviceResolverLocal : public DeviceResolverInterface {
 public:
  // `devices` outlives the resolver.
  explicit DeviceResolverLocal(const DeviceManager* devices)
      : devices_(devices) {}

  absl::StatusOr<DeviceAttributes> GetDeviceAttributes(
      absl::string_view full_name) const override {
    ASSIGN_OR_RETURN(const auto device, devices_->Find(full_name));
    return device->attributes();
  }
  absl::StatusOr<std::vector<DeviceAttributes>> GetTaskDevices(
      absl::string_view task_name) const override {
    std::vector<DeviceAttributes> found;
    for (const Device* device : devices_->devices()) {
      if (device->attributes().name.TaskName() == task_name) {
        found.push_back(device->attributes());
      }
    }
    if (!found.empty()) return found;
    return absl::NotFoundError(
        absl::StrCat("this process has no device of task \"", task_name, "\""));
  }

 private:
  const DeviceManager* const devices_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_DEVICE_RESOLVER_LOCAL_H_
