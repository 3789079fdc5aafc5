#ifndef TUTTI_GPU_TESTING_GPU_CASES_H_
#define TUTTI_GPU_TESTING_GPU_CASES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "framework/reduce/reduction_test_data.h"
#include "tests/conformance/case.h"
#include "tests/conformance/implementation_under_test.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// For tests: schedules and the cases of their conformance suite, with tensors
// of GPUs.

// All that is made of steps and is chosen or named like everything else, to be
// proved with few values of each dimension.
std::vector<conformance::ImplementationUnderTest> Schedules();
std::vector<std::string> ScheduleNames();

// The one of that name, which there is.
conformance::ImplementationUnderTest ScheduleNamed(const std::string& name);

// Whether GPUs and the host give the same bits: steps of more than 8 operands
// round 16-bit floats several times on GPUs, and on the host once; functions of
// the caller run on the host alone.
bool RunsAlike(const conformance::Case& c);

// One member's tensors.
struct CaseBuffers {
  Tensor input;
  Tensor output;
};

// As the case wants them, unset where there is none. `allocate` gives a tensor
// of one dimension.
CaseBuffers MakeCaseBuffers(
    const conformance::Case& c, int rank,
    absl::FunctionRef<Tensor(int64_t num_elements)> allocate);

// The same, of a device's memory.
CaseBuffers MakeCaseBuffers(CudaDevice& device, const conformance::Case& c,
                            int rank);

// The bytes of the pieces, one after the other.
Bytes Joined(absl::Span<const absl::Span<const std::byte>> pieces);

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_GPU_CASES_H_
