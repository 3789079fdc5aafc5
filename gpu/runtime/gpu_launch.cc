#include "gpu/runtime/gpu_launch.h"

#include "framework/base/status_macros.h"

namespace tutti {
namespace {

absl::Status Launch(GpuRuntime& runtime, const GpuLaunch& launch,
                    GpuStream stream) {
  if (const auto* const reduction = std::get_if<GpuReduction>(&launch)) {
    return runtime.LaunchReduce(*reduction, stream);
  }
  return runtime.LaunchCopy(std::get<GpuCopy>(launch), stream);
}

}  // namespace

absl::Status LaunchInOrder(GpuRuntime& runtime,
                           absl::Span<const GpuLaunch> launches,
                           GpuStream stream) {
  for (const GpuLaunch& launch : launches) {
    RETURN_IF_ERROR(Launch(runtime, launch, stream));
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

}  // namespace tutti
