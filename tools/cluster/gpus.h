#ifndef TUTTI_TOOLS_CLUSTER_GPUS_H_
#define TUTTI_TOOLS_CLUSTER_GPUS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/cluster/party.h"
#include "tutti/environment.h"

namespace tutti {

// GPU support of this build and GPUs of this machine.
struct GpuReport {
  bool has_cuda = false;     // The build includes CUDA.
  std::string cuda;          // Version and origin, or why not.
  bool has_nccl = false;     // The build includes NCCL.
  std::string nccl;          // Version of NCCL's header, or why not.
  std::string nccl_version;  // Of the opened library; empty if none.
  std::string why_no_nccl;   // Empty if the library opens.

  // Reason why NCCL serves only groups within one process; empty if it serves
  // all groups.
  std::string why_nccl_within_process;
  std::vector<std::string> names;  // Names of this machine's GPUs.
  std::string why_none;            // Empty if there are GPUs.
};

// Queries the driver if built with CUDA, and opens NCCL if built with NCCL.
GpuReport GpusHere();

// Makes the devices that --device names: null for "CPU", or else on this
// machine's GPUs (GpuRanks()). Errors: FAILED_PRECONDITION with the reason why
// there are none. The parts of `environment` outlive the result.
absl::StatusOr<DeviceMaker> DeviceMakerFor(absl::string_view device_type,
                                           const Environment& environment);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_GPUS_H_
