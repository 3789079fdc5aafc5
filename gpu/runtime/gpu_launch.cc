#include "gpu/runtime/gpu_launch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "framework/base/status_macros.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr size_t kMax = kMaxGpuBuffers;

bool IsOnePass(const GpuReduction& reduction) {
  return reduction.inputs.size() <= kMax || IsMean(reduction);
}

size_t NumBytes(const GpuReduction& reduction) {
  return reduction.num_elements * SizeOf(reduction.dtype);
}

bool Touch(const void* a, const void* b, size_t num_bytes) {
  const auto one = reinterpret_cast<uintptr_t>(a);
  const auto other = reinterpret_cast<uintptr_t>(b);
  return one < other + num_bytes && other < one + num_bytes;
}

template <typename Pointer>
std::vector<Pointer> Part(const std::vector<Pointer>& all, size_t begin,
                          size_t end) {
  const auto at = [&](size_t index) {
    return all.begin() + static_cast<ptrdiff_t>(std::min(index, all.size()));
  };
  return std::vector<Pointer>(at(begin), at(end));
}

// Finds an output that can serve as the scratch: no pass after the first reads
// it. Returns null if there is none, or no scratch is needed.
void* SetAsideIn(const GpuReduction& reduction) {
  if (IsOnePass(reduction)) return nullptr;
  const auto unread = Part(reduction.inputs, kMax, reduction.inputs.size());
  const auto found =
      std::find_if(reduction.outputs.begin(), reduction.outputs.end(),
                   [&](const void* output) {
                     return std::none_of(
                         unread.begin(), unread.end(), [&](const void* input) {
                           return Touch(output, input, NumBytes(reduction));
                         });
                   });
  return found == reduction.outputs.end() ? nullptr : *found;
}

}  // namespace

absl::Status LaunchInOrder(GpuRuntime& runtime,
                           absl::Span<const GpuLaunch> launches,
                           GpuStream stream) {
  for (const GpuLaunch& launch : launches) {
    const auto* const reduction = std::get_if<GpuReduction>(&launch);
    RETURN_IF_ERROR(
        reduction != nullptr
            ? runtime.LaunchReduce(*reduction, stream)
            : runtime.LaunchCopy(std::get<GpuCopy>(launch), stream));
  }
  return absl::OkStatus();
}

void AppendCopies(const std::byte* from, const std::vector<std::byte*>& to,
                  size_t num_bytes, std::vector<GpuLaunch>* launches) {
  if (num_bytes == 0) return;
  GpuCopy copy = {.input = from, .num_bytes = num_bytes};
  const auto append = [&] {
    if (!copy.outputs.empty()) launches->emplace_back(copy);
    copy.outputs.clear();
  };
  for (std::byte* const output : to) {
    if (output == from) continue;
    copy.outputs.push_back(output);
    if (copy.outputs.size() == kMaxGpuBuffers) append();
  }
  append();
}

bool NeedsScratch(const GpuReduction& reduction) {
  return !IsOnePass(reduction) && SetAsideIn(reduction) == nullptr;
}

std::vector<GpuLaunch> SplitReduction(const GpuReduction& reduction,
                                      void* scratch) {
  void* const output = SetAsideIn(reduction);
  void* const aside = output != nullptr ? output : scratch;
  std::vector<GpuLaunch> launches;
  const size_t num_inputs = reduction.inputs.size();
  const size_t num_first = IsOnePass(reduction) ? num_inputs : kMax;
  GpuReduction pass = reduction;
  pass.inputs = Part(reduction.inputs, 0, num_first);
  pass.outputs = {aside};
  pass.divisor = 1;
  for (size_t next = num_first; next < num_inputs; next += kMax - 1) {
    launches.emplace_back(pass);
    pass.inputs = Part(reduction.inputs, next, next + kMax - 1);
    pass.inputs.insert(pass.inputs.begin(), aside);
  }
  pass.outputs = Part(reduction.outputs, 0, kMax);
  pass.divisor = reduction.divisor;
  launches.emplace_back(pass);
  std::vector<std::byte*> others;
  for (size_t i = kMax; i < reduction.outputs.size(); ++i) {
    others.push_back(static_cast<std::byte*>(reduction.outputs[i]));
  }
  AppendCopies(static_cast<const std::byte*>(reduction.outputs[0]), others,
               NumBytes(reduction), &launches);
  return launches;
}

}  // namespace tutti
