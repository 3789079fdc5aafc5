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

// Cuts a reduction of any number of buffers into launches.
//
// Up to 8 inputs and outputs take one pass: it reads every input and writes
// every output once. For more inputs, the first pass reduces 8 of them to a
// scratch. Each later pass reads the scratch and up to 7 more inputs:
//
//   inputs   0 .. 7   8 .. 14   15 .. 17
//             \ | /    | | /     | | /
//   passes     a  ---->  a  ----->  outputs / divisor
//
// The order is thus from left to right for any number of inputs. Only floats
// of 8 and 16 bits differ in bits from one pass: each pass rounds its result.
// An average of integers is one pass of all inputs, as the sum may be too large
// for the scratch: a launch of more than kMaxGpuMeanInputs is an error.
// Outputs after the eighth are copies of the first.

// True if SplitReduction() needs a scratch of `num_elements`.
bool NeedsScratch(const GpuReduction& reduction);

std::vector<GpuLaunch> SplitReduction(const GpuReduction& reduction,
                                      void* scratch);

}  // namespace tutti

#endif  // TUTTI_GPU_RUNTIME_GPU_LAUNCH_H_
