#ifndef TUTTI_GPU_GPU_CASES_H_
#define TUTTI_GPU_GPU_CASES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "framework/reduction_test_data.h"
#include "framework/tensor.h"
#include "gpu/cuda_device.h"
#include "tests/conformance/case.h"
#include "tests/conformance/implementation_under_test.h"

namespace tutti {

// For tests: schedules and the cases of their conformance suite, with tensors
// of GPUs.

// All that is made of steps and is chosen or named like everything else.
std::vector<std::string> ScheduleNames();

// The schedule of that name, to be proved with few values of each dimension.
conformance::ImplementationUnderTest ScheduleNamed(const std::string& name);

// Averages of 16-bit floats are rounded once here, and by steps of the host
// twice; functions of the caller run on the host alone.
bool RunsAlike(const conformance::Case& c);

// One member's tensors.
struct CaseBuffers {
  Tensor input;
  Tensor output;
};

// As the case wants them, of random bits.
CaseBuffers MakeCaseBuffers(CudaDevice& device, const conformance::Case& c,
                            int rank);

// The bytes of the pieces, one after the other.
Bytes Joined(absl::Span<const absl::Span<const std::byte>> pieces);

}  // namespace tutti

#endif  // TUTTI_GPU_GPU_CASES_H_
