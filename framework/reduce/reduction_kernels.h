#ifndef TUTTI_FRAMEWORK_REDUCE_REDUCTION_KERNELS_H_
#define TUTTI_FRAMEWORK_REDUCE_REDUCTION_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Arguments of ReductionKernels::fold; see ManyReduction in reduction.h.
struct FoldArguments {
  absl::Span<const uint8_t* const> inputs;  // At least one.
  absl::Span<uint8_t* const> outputs;
  absl::Span<uint8_t* const> streamed;  // Written past the caches.
  size_t num_elements = 0;
  int64_t divisor = 1;  // Used for floats and by `mean`.
};

// Loops for one instruction set; reduction.h has their contracts. No entry is
// null. Entries of unsupported pairs do nothing.
struct ReductionKernels {
  using Fold = void (*)(const FoldArguments& arguments);
  using Combine = void (*)(const uint8_t* left, const uint8_t* right,
                           uint8_t* into, size_t num_elements);
  using Divide = void (*)(uint8_t* values, size_t num_elements,
                          int64_t divisor);
  using Multiply = void (*)(const uint8_t* from, uint8_t* into,
                            size_t num_elements, double factor);
  using Widen = size_t (*)(const uint8_t* from, uint8_t* sums,
                           size_t num_elements);
  using Narrow = void (*)(const uint8_t* sums, uint8_t* into,
                          size_t num_elements);
  template <typename Kernel>
  using PerDType = std::array<Kernel, kAllDTypes.size()>;

  // Indexed by ReductionKind and DType.
  std::array<PerDType<Combine>, kAllReductionKinds.size()> combine;
  std::array<PerDType<Fold>, kAllReductionKinds.size()> fold;

  PerDType<Fold> mean;  // Sums of integers, divided. Exact.
  PerDType<Divide> divide;
  PerDType<Multiply> multiply;

  // For dtypes that are computed in float32: conversion to floats, and back
  // with one rounding. `widen` returns the number of floats, which is rounded
  // up to whole lines of elements; the additional ones are zeros. The floats
  // lie in an order of the instruction set, the same for all buffers of one
  // length.
  PerDType<Widen> widen;
  PerDType<Narrow> narrow;

  // Copies the bytes of the only input to all outputs.
  Fold copy = nullptr;
};

// Kernels for the best instruction set of this CPU, or for the set chosen by
// hwy::SetSupportedTargetsForTest().
const ReductionKernels& KernelsOfThisCpu();

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REDUCE_REDUCTION_KERNELS_H_
