#ifndef TUTTI_GPU_KERNELS_KERNEL_TABLE_H_
#define TUTTI_GPU_KERNELS_KERNEL_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gpu/kernels/element_ops.h"
#include "gpu/kernels/kernel_loops.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

// Maps values to the types that kernels are templates over. Each function
// returns the result of `function`, or a default value.

namespace tutti::gpu {

// Calls `function(Format(), Op())` if CheckSupported(kind, dtype) is OK.
template <class Function>
auto WithReduction(ReductionKind kind, DType dtype, const Function& function)
    -> decltype(function(Format<float>(), Sum())) {
  using Result = decltype(function(Format<float>(), Sum()));
  return VisitDType(dtype, [&]<typename Element>(Element) -> Result {
    const Format<Element> format = {};
    constexpr bool kIsBool = std::is_same_v<Element, bool>;
    if constexpr (kIsInteger<Element>) {
      if (kind == ReductionKind::kSum) {
        return function(WideFormat<Element>(), Sum());
      }
    } else if constexpr (!kIsBool) {
      if (kind == ReductionKind::kSum) return function(format, Sum());
    }
    if constexpr (!kIsBool) {
      if (kind == ReductionKind::kProd) return function(format, Prod());
    }
    if constexpr (!kIsComplex<Element>) {
      if (kind == ReductionKind::kMin) return function(format, Min());
      if (kind == ReductionKind::kMax) return function(format, Max());
    }
    if constexpr (kIsInteger<Element> || kIsBool) {
      if (kind == ReductionKind::kBand) return function(format, Band());
      if (kind == ReductionKind::kBor) return function(format, Bor());
      if (kind == ReductionKind::kBxor) return function(format, Bxor());
    }
    return {};
  });
}

// Calls `function(Word())` with a word of `word_bytes`, a size from PlanCopy().
template <class Function>
auto WithWord(size_t word_bytes, const Function& function) {
  if (word_bytes == kPackBytes) return function(Words());
  if (word_bytes == sizeof(uint32_t)) return function(uint32_t());
  return function(uint8_t());
}

}  // namespace tutti::gpu

#endif  // TUTTI_GPU_KERNELS_KERNEL_TABLE_H_
