#include "gpu/runtime/cuda_status.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

// Same as in _NVCC_FLAGS of third_party/cuda_library.bzl.
constexpr int kOldestMajor = 8;

absl::StatusCode CodeOf(cudaError_t error) {
  switch (error) {
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorInitializationError:
    case cudaErrorNoDevice:
    case cudaErrorDevicesUnavailable:
      return absl::StatusCode::kUnavailable;
    case cudaErrorMemoryAllocation:
      return absl::StatusCode::kResourceExhausted;
    case cudaErrorTooManyPeers:
      return absl::StatusCode::kOutOfRange;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
      return absl::StatusCode::kInvalidArgument;
    case cudaErrorNotPermitted:
    case cudaErrorPeerAccessUnsupported:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kInternal;
  }
}

// Facts about a missing or too old driver that CUDA's message lacks.
std::string AboutDriver(cudaError_t error) {
  if (error != cudaErrorInsufficientDriver) return "";
  int driver = 0, runtime = 0;
  (void)cudaDriverGetVersion(&driver);
  (void)cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return "; no NVIDIA driver is installed here";
  return absl::StrCat("; the driver is for CUDA ", driver / 1000, ".",
                      driver % 1000 / 10, ", this program for ", runtime / 1000,
                      ".", runtime % 1000 / 10);
}

}  // namespace

absl::Status CudaStatus(cudaError_t error, absl::string_view call, int gpu) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();
  const std::string where = gpu < 0 ? "" : absl::StrCat(" on GPU ", gpu);
  return absl::Status(
      CodeOf(error),
      absl::StrCat(call, where, ": ", cudaGetErrorString(error), " (",
                   cudaGetErrorName(error), ")", AboutDriver(error)));
}

bool SpoilsGpu(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorContextIsDestroyed:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorMpsRpcFailure:
    case cudaErrorCudartUnloading:
    case cudaErrorUnknown:
#if CUDART_VERSION >= 13000
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
#endif
      return true;
    default:
      return false;
  }
}

absl::Status CheckCapability(int gpu, int major, int minor) {
  if (major >= kOldestMajor) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("GPU ", gpu, " has compute capability ", major, ".", minor,
                   ", and ", kOldestMajor, ".0 is the oldest that will do"));
}

}  // namespace tutti
