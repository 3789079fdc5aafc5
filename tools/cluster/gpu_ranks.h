#ifndef TUTTI_TOOLS_CLUSTER_GPU_RANKS_H_
#define TUTTI_TOOLS_CLUSTER_GPU_RANKS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tools/cluster/party.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Makes the devices of a party on the GPUs of `runtime`. Rank r is on GPU r
// modulo their number, so several ranks may share a GPU. `nccl` may be null.
// Errors: NOT_FOUND if there is no GPU; errors of the runtime. The parts of
// `environment` outlive the result.
absl::StatusOr<DeviceMaker> GpuRanks(std::shared_ptr<GpuRuntime> runtime,
                                     const Environment& environment,
                                     std::shared_ptr<NcclRuntime> nccl);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_GPU_RANKS_H_
