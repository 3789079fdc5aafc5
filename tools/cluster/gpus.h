#ifndef TUTTI_TOOLS_CLUSTER_GPUS_H_
#define TUTTI_TOOLS_CLUSTER_GPUS_H_

#include <string>
#include <vector>

namespace tutti {

// What this build and this machine have of GPUs.
struct GpuReport {
  bool has_cuda = false;     // Whether it was built with CUDA.
  std::string cuda;          // Which, and from where, or why not.
  bool has_nccl = false;     // Whether it was built with NCCL.
  std::string nccl;          // The same of NCCL's header.
  std::string nccl_version;  // Of the library here; empty if none opens.
  std::string why_no_nccl;   // Empty if it opens.

  // Why it serves groups of one process alone; empty if it serves others too.
  std::string why_nccl_within_process;
  std::vector<std::string> names;  // Of the GPUs that are here.
  std::string why_none;            // Empty if there are some.
};

// Asks the driver, if it was built with CUDA, and opens NCCL, if it was built
// with that.
GpuReport GpusHere();

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_GPUS_H_
