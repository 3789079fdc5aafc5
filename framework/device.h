#ifndef TUTTI_FRAMEWORK_DEVICE_H_
#define TUTTI_FRAMEWORK_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/device_name.h"
#include "framework/dtype.h"
#include "framework/environment.h"
#include "framework/outfeed_channel.h"
#include "framework/step_stream.h"
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

  // What it can call to run collectives (DeviceNeeds), by name.
  std::vector<std::string> libraries;

  // The piece of hardware that it is on, where several devices may be on one:
  // the same text for all there, whatever process they are of, and for no
  // others. Empty: it shares none.
  std::string unit;

  friend bool operator==(const DeviceAttributes&,
                         const DeviceAttributes&) = default;
};

// Where tensors live, and what is computed there. Thread-safe.
class Device {
 public:
  explicit Device(DeviceAttributes attributes);
  virtual ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceAttributes& attributes() const { return attributes_; }
  const std::string& full_name() const { return full_name_; }

  // Uninitialised memory of this device. Errors: as Tensor::Allocate.
  virtual absl::StatusOr<Tensor> Allocate(DType dtype,
                                          const TensorShape& shape) = 0;

  // Whether the processor may read and write the bytes of its tensors.
  virtual bool has_host_memory() const { return true; }

  // For the steps of one execution, where they run in an order of the device's
  // own; null where the processor runs them. The device and the clock outlive
  // it. Errors: those of the device.
  virtual absl::StatusOr<std::unique_ptr<StepStream>> OpenSteps(
      Clock& /*clock*/) {
    return nullptr;
  }

  // Way by which work on this device hands tensors to the host. Null as long as
  // the device was given none: outfeed/ makes those of CPU devices when it
  // needs them.
  std::shared_ptr<OutfeedChannel> outfeed_channel() const;

  // The first one stays, for the device's life. Returns that.
  std::shared_ptr<OutfeedChannel> GiveOutfeedChannel(
      std::shared_ptr<OutfeedChannel> channel);

 private:
  class OutfeedSlot;

  const DeviceAttributes attributes_;
  const std::string full_name_;
  const std::unique_ptr<OutfeedSlot> outfeed_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_DEVICE_H_
