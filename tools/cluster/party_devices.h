#ifndef TUTTI_TOOLS_CLUSTER_PARTY_DEVICES_H_
#define TUTTI_TOOLS_CLUSTER_PARTY_DEVICES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tools/cluster/party.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// Makes the devices of a party on the GPUs of `runtime`. Rank r is on GPU r
// modulo their number, so several ranks may share a GPU. `nccl` may be null.
// Errors: NOT_FOUND if there is no GPU; errors of the runtime. The parts of
// `environment` outlive the result.
absl::StatusOr<DeviceMaker> GpuRanks(std::shared_ptr<GpuRuntime> runtime,
                                     const Environment& environment,
                                     std::shared_ptr<NcclRuntime> nccl);

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

#endif  // TUTTI_TOOLS_CLUSTER_PARTY_DEVICES_H_
