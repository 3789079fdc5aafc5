#ifndef TUTTI_FRAMEWORK_DEVICE_NAME_H_
#define TUTTI_FRAMEWORK_DEVICE_NAME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tutti {

// The parts of a full device name, as in
// "/job:worker/replica:0/task:3/device:CPU:1".
struct DeviceName {
  std::string job;
  int replica = 0;
  int task = 0;
  std::string type;
  int index = 0;

  // Errors: INVALID_ARGUMENT saying what was given and the form wanted.
  static absl::StatusOr<DeviceName> Parse(absl::string_view full_name);

  std::string ToString() const;

  // "/job:worker/replica:0/task:3": the process that owns the device.
  std::string TaskName() const;

  friend bool operator==(const DeviceName&, const DeviceName&) = default;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DEVICE_NAME_H_
