#ifndef TUTTI_TOOLS_CLUSTER_HOST_COPIES_H_
#define TUTTI_TOOLS_CLUSTER_HOST_COPIES_H_

#include "absl/status/statusor.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/tensor.h"

namespace tutti {

// Copies between the host and devices whose memory the processor must not
// touch. They block until the bytes are there. An unset tensor stays unset, and
// tensors of devices with host memory are returned as they are. Errors: those
// of the device.

// Returns a tensor of the device with the bytes of `host`.
absl::StatusOr<Tensor> ToDevice(const Tensor& host, Device& device,
                                Clock& clock);

// Returns a tensor of the host with the bytes of the device's `tensor`.
absl::StatusOr<Tensor> ToHost(const Tensor& tensor, Device& device,
                              Clock& clock);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_HOST_COPIES_H_
