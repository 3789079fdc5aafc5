#ifndef TUTTI_FRAMEWORK_REDUCE_REDUCTION_KERNELS_H_
#define TUTTI_FRAMEWORK_REDUCE_REDUCTION_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// What ReductionKernels::fold works on: a ManyReduction of reduction.h.
struct FoldArguments {
  absl::Span<const uint8_t* const> inputs;  // At least one.
  absl::Span<uint8_t* const> outputs;
  absl::Span<uint8_t* const> streamed;  // Past the caches.
  size_t num_elements = 0;
  int64_t divisor = 1;  // Of floats.
};

// The loops behind reduction.h, which says what they compute, for one
// instruction set. No entry is null: one for a pair that is not supported does
// nothing.
struct ReductionKernels {
  using Fold = void (*)(const FoldArguments& arguments);
  using Combine = void (*)(const uint8_t* left, const uint8_t* right,
                           uint8_t* into, size_t num_elements);
  using Divide = void (*)(uint8_t* values, size_t num_elements,
                          int64_t divisor);
  template <typename Kernel>
  using PerDType = std::array<Kernel, kAllDTypes.size()>;

  // Indexed by ReductionKind and DType.
  std::array<PerDType<Combine>, kAllReductionKinds.size()> combine;
  std::array<PerDType<Fold>, kAllReductionKinds.size()> fold;

  PerDType<Divide> divide;

  // The bytes of the only input to all outputs.
  Fold copy = nullptr;
};

// The kernels for the best instruction set of this CPU, or for the one that
// hwy::SetSupportedTargetsForTest() asked for.
const ReductionKernels& KernelsOfThisCpu();

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_KERNELS_H_
