#include "tools/commands/why_not_here.h"

#include "absl/strings/str_cat.h"
#include "framework/choice/parts.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "remote/mpi/messages/mpi_choice.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

// Whether the implementation serves GPUs and no devices in host memory.
bool NeedsGpus(const ImplementationTraits& traits) {
  return traits.device_types.size() == 1 &&
         traits.device_types.front() == CudaDevice::kType;
}

}  // namespace

std::string WhyNotHere(const ImplementationTraits& traits,
                       const BuildInfo& build) {
  std::string why_not = WhyNotOfParts(traits);
  if (!why_not.empty()) return why_not;
  if (NeedsGpus(traits) && build.gpus.names.empty()) {
    return absl::StrCat("needs a GPU: ", build.gpus.why_none);
  }
  if (traits.device_needs.library == kNcclLibrary &&
      !build.gpus.why_no_nccl.empty()) {
    return absl::StrCat("needs NCCL: ", build.gpus.why_no_nccl);
  }
  if (traits.delegate == kMpiDelegate && !build.is_started_by_mpirun) {
    return "needs processes of mpirun, which has not started this one";
  }
  return "";
}

}  // namespace tutti
