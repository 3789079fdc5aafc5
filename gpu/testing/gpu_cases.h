#ifndef TUTTI_GPU_TESTING_GPU_CASES_H_
#define TUTTI_GPU_TESTING_GPU_CASES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "tests/conformance/case.h"
#include "tests/conformance/tested_implementation.h"
#include "tutti/collective.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// Schedules and the cases of their conformance suite, with tensors of GPUs; for
// tests.

// All implementations made of steps that can be chosen or named, with few
// values of each dimension.
std::vector<conformance::ImplementationUnderTest> Schedules();
std::vector<std::string> ScheduleNames();

// REQUIRES: such a schedule exists.
conformance::ImplementationUnderTest ScheduleNamed(const std::string& name);

// True if GPUs and the host give the same bits. Steps of more than 8 operands
// round floats of 8 and 16 bits several times on GPUs, once on the host.
bool RunsAlike(const conformance::Case& c);

// True if the case has an op of the caller.
bool HasCustomOp(const conformance::Case& c);

// Gives the custom ops of the request a launcher on the GPU of a double, which
// computes the op when the stream comes to it.
void LaunchOpsOn(FakeGpuRuntime& runtime, int gpu, CollectiveRequest& request);

// Tensors of a member.
struct CaseBuffers {
  Tensor input;
  Tensor output;
};

// Makes the tensors of the case; unset if the member has none. `allocate`
// returns a tensor of one dimension.
CaseBuffers MakeCaseBuffers(
    const conformance::Case& c, int rank,
    absl::FunctionRef<Tensor(int64_t num_elements)> allocate);

// Makes them in the device's memory.
CaseBuffers MakeCaseBuffers(CudaDevice& device, const conformance::Case& c,
                            int rank);

// Joins the bytes of the pieces.
Bytes Joined(absl::Span<const absl::Span<const std::byte>> pieces);

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_GPU_CASES_H_
