#include "gpu/kernels/gpu_reduction.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

template <typename Pointer>
absl::Status CheckBuffers(absl::string_view what,
                          const std::vector<Pointer>& buffers, bool is_empty,
                          size_t most = kMaxGpuBuffers) {
  if (buffers.empty() || buffers.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("a kernel on a GPU takes 1 to ", most, " ", what, ", not ",
                     buffers.size()));
  }
  const auto null = std::find(buffers.begin(), buffers.end(), nullptr);
  if (null != buffers.end() && !is_empty) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, "[", null - buffers.begin(),
                     "] of a kernel on a GPU is a null pointer"));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsMean(const GpuReduction& reduction) {
  return reduction.divisor != 1 &&
         IsMeanOfIntegers(reduction.dtype, reduction.kind,
                          FinalOp::DivideByGroupSize());
}

absl::Status CheckReduction(const GpuReduction& reduction) {
  RETURN_IF_ERROR(CheckSupported(reduction.kind, reduction.dtype));
  if (reduction.divisor < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a reduction on a GPU divides by at least one, not by ",
                     reduction.divisor));
  }
  const bool is_empty = reduction.num_elements == 0;
  const bool is_mean = IsMean(reduction);
  RETURN_IF_ERROR(CheckBuffers(is_mean ? "integers to average" : "inputs",
                               reduction.inputs, is_empty,
                               is_mean ? kMaxGpuMeanInputs : kMaxGpuBuffers));
  return CheckBuffers("outputs", reduction.outputs, is_empty);
}

absl::Status CheckCopy(const GpuCopy& copy) {
  const bool is_empty = copy.num_bytes == 0;
  const std::vector<const void*> inputs = {copy.input};
  RETURN_IF_ERROR(CheckBuffers("inputs", inputs, is_empty));
  return CheckBuffers("outputs", copy.outputs, is_empty);
}

}  // namespace tutti
