#ifndef TUTTI_TOOLS_GPUS_H_
#define TUTTI_TOOLS_GPUS_H_

#include <string>
#include <vector>

namespace tutti {

// What this build and this machine have of GPUs.
struct GpuReport {
  bool has_cuda = false;           // Whether it was built with CUDA.
  std::string cuda;                // Which, and from where, or why not.
  std::string nccl;                // The same of NCCL's header.
  std::vector<std::string> names;  // Of the GPUs that are here.
  std::string why_none;            // Empty if there are some.
};

// Asks the driver, if it was built with CUDA.
GpuReport GpusHere();

}  // namespace tutti

#endif  // TUTTI_TOOLS_GPUS_H_
