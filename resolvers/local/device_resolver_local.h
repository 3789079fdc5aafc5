#ifndef TUTTI_RESOLVERS_LOCAL_DEVICE_RESOLVER_LOCAL_H_
#define TUTTI_RESOLVERS_LOCAL_DEVICE_RESOLVER_LOCAL_H_

#include <vector>

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
      absl::string_view full_name) const override;
  absl::StatusOr<std::vector<DeviceAttributes>> GetTaskDevices(
      absl::string_view task_name) const override;

 private:
  const DeviceManager* const devices_;
};

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_DEVICE_RESOLVER_LOCAL_H_
