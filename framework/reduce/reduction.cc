#include "tutti/reduction.h"

#include <atomic>

#include "framework/reduce/reduction_kernels.h"

namespace tutti {
namespace {

// Null until first needed. Threads may race to set it, because the target is
// constant.
constinit std::atomic<const ReductionKernels*> chosen_kernels = nullptr;

// Keeps the choice: choosing at each call would take twice as long as the rest
// of a call for one element.
const ReductionKernels& Kernels() {
  const ReductionKernels* kernels =
      chosen_kernels.load(std::memory_order_relaxed);
  if (kernels == nullptr) [[unlikely]] {
    kernels = &KernelsOfThisCpu();
    chosen_kernels.store(kernels, std::memory_order_relaxed);
  }
  return *kernels;
}

}  // namespace

void Reduce(ReductionKind kind, DType dtype, const void* left,
            const void* right, void* into, size_t num_elements) {
  if (!IsValid(kind) || !IsValid(dtype)) return;
  const auto combine =
      Kernels().combine[static_cast<size_t>(kind)][static_cast<size_t>(dtype)];
  combine(static_cast<const uint8_t*>(left), static_cast<const uint8_t*>(right),
          static_cast<uint8_t*>(into), num_elements);
}

void ReduceMany(const ManyReduction& reduction) {
  if (!IsValid(reduction.kind) || !IsValid(reduction.dtype)) return;
  const auto fold = Kernels().fold[static_cast<size_t>(reduction.kind)]
                                  [static_cast<size_t>(reduction.dtype)];
  fold({reduction.inputs, reduction.outputs, reduction.streamed,
        reduction.num_elements, reduction.divisor});
}

void CopyToMany(const uint8_t* from, absl::Span<uint8_t* const> outputs,
                absl::Span<uint8_t* const> streamed, size_t num_bytes) {
  Kernels().copy({{&from, 1}, outputs, streamed, num_bytes});
}

void DivideBy(DType dtype, void* values, size_t num_elements, int64_t divisor) {
  if (!IsValid(dtype)) return;
  const auto divide = Kernels().divide[static_cast<size_t>(dtype)];
  divide(static_cast<uint8_t*>(values), num_elements, divisor);
}

}  // namespace tutti
