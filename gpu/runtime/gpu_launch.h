#ifndef TUTTI_GPU_RUNTIME_GPU_LAUNCH_H_
#define TUTTI_GPU_RUNTIME_GPU_LAUNCH_H_

#include <cstddef>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gpu/kernels/gpu_reduction.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// A launch of one of our kernels.
using GpuLaunch = std::variant<GpuReduction, GpuCopy>;

// Puts the launches on the stream, in order. Errors: as the first failed
// launch.
absl::Status LaunchInOrder(GpuRuntime& runtime,
                           absl::Span<const GpuLaunch> launches,
                           GpuStream stream);

// Appends copies of `from` to all of `to`, except to `from` itself.
void AppendCopies(const std::byte* from, const std::vector<std::byte*>& to,
                  size_t num_bytes, std::vector<GpuLaunch>* launches);

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_GPU_LAUNCH_H_
