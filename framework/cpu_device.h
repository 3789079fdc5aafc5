#ifndef TUTTI_FRAMEWORK_CPU_DEVICE_H_
#define TUTTI_FRAMEWORK_CPU_DEVICE_H_

#include "framework/device.h"

namespace tutti {

// Host memory and the processor. Several may share one machine: a device is a
// member of groups, not a core.
class CpuDevice : public Device {
 public:
  using Device::Device;

  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    return Tensor::Allocate(dtype, shape);
  }
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_CPU_DEVICE_H_
