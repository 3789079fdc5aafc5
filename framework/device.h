#ifndef TUTTI_FRAMEWORK_DEVICE_H_
#define TUTTI_FRAMEWORK_DEVICE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/device_name.h"
#include "framework/dtype.h"
#include "framework/tensor.h"
#include "framework/tensor_shape.h"

namespace tutti {

// A direct connection to another device of the same task.
struct DeviceLink {
  int device_index = 0;
  int strength = 0;  // Larger is better; comparable within a task.

  friend bool operator==(const DeviceLink&, const DeviceLink&) = default;
};

struct DeviceLocality {
  std::vector<DeviceLink> links;

  friend bool operator==(const DeviceLocality&,
                         const DeviceLocality&) = default;
};

struct DeviceAttributes {
  DeviceName name;
  DeviceLocality locality;

  // Another number each time the device's process starts: tells a restarted
  // device from the one that it replaces.
  uint64_t incarnation = 0;

  friend bool operator==(const DeviceAttributes&,
                         const DeviceAttributes&) = default;
};

// Where tensors live, and what is computed there. Thread-safe.
class Device {
 public:
  explicit Device(DeviceAttributes attributes)
      : attributes_(std::move(attributes)),
        full_name_(attributes_.name.ToString()) {}
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceAttributes& attributes() const { return attributes_; }
  const std::string& full_name() const { return full_name_; }

  // Uninitialised memory of this device. Errors: as Tensor::Allocate.
  virtual absl::StatusOr<Tensor> Allocate(DType dtype,
                                          const TensorShape& shape) = 0;

 private:
  const DeviceAttributes attributes_;
  const std::string full_name_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DEVICE_H_
