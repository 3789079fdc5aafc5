#include "gpu/runtime/cuda_found.h"
#include "tools/cluster/gpus.h"

namespace tutti {

GpuReport GpusHere() {
  return {.cuda = CudaFound(),
          .nccl = NcclFound(),
          .why_no_nccl = "Tutti was built without CUDA",
          .why_none = "Tutti was built without CUDA"};
}

}  // namespace tutti
