#include "resolvers/local/device_resolver_local.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {

absl::StatusOr<DeviceAttributes> DeviceResolverLocal::GetDeviceAttributes(
    absl::string_view full_name) const {
  ASSIGN_OR_RETURN(const auto device, devices_->Find(full_name));
  return device->attributes();
}

absl::StatusOr<std::vector<DeviceAttributes>>
DeviceResolverLocal::GetTaskDevices(absl::string_view task_name) const {
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

}  // namespace tutti
