#include "tutti/reduction.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "framework/base/status_macros.h"
#include "framework/reduce/reduction_kernels.h"
#include "framework/tensor/local_buffers.h"

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

int GroupSize(const FoldBuffers& buffers) {
  return buffers.group_size > 0 ? buffers.group_size
                                : static_cast<int>(buffers.inputs.size());
}

bool FitsOnePass(DType dtype, const MergeOp& merge_op, const FinalOp& final_op,
                 size_t num_inputs) {
  return num_inputs > 1 && !merge_op.is_custom() && !final_op.is_custom() &&
         (final_op.is_identity() || IsFloating(dtype) ||
          merge_op.kind() == ReductionKind::kSum);
}

absl::Status MergeTile(DType dtype, const MergeOp& merge_op,
                       absl::Span<const uint8_t* const> inputs,
                       int64_t num_elements, uint8_t* tile) {
  if (!merge_op.is_custom()) {
    ReduceMany({.kind = merge_op.kind(),
                .dtype = dtype,
                .inputs = inputs,
                .outputs = absl::MakeConstSpan(&tile, 1),
                .num_elements = static_cast<size_t>(num_elements)});
    return absl::OkStatus();
  }
  const uint8_t* sum = inputs[0];
  for (const uint8_t* input : inputs.subspan(1)) {
    RETURN_IF_ERROR(merge_op.Apply(dtype, sum, input, tile, num_elements));
    sum = tile;
  }
  return absl::OkStatus();
}

// Folds bytes [begin, begin + num_bytes) of the inputs into `tile`, with the
// final op.
absl::Status FoldTile(DType dtype, const MergeOp& merge_op,
                      const FinalOp& final_op, const FoldBuffers& buffers,
                      int64_t begin, int64_t num_bytes, uint8_t* tile) {
  const auto num_elements = num_bytes / static_cast<int64_t>(SizeOf(dtype));
  if (buffers.inputs.size() == 1) {
    std::memcpy(tile, buffers.inputs[0] + begin,
                static_cast<size_t>(num_bytes));
  } else {
    RETURN_IF_ERROR(MergeTile(dtype, merge_op, At(buffers.inputs, begin),
                              num_elements, tile));
  }
  if (final_op.is_identity()) return absl::OkStatus();
  return final_op.Apply(dtype, tile, num_elements, GroupSize(buffers));
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
  const bool is_mean = reduction.kind == ReductionKind::kSum &&
                       reduction.divisor != 1 && IsInteger(reduction.dtype);
  const auto& row = is_mean
                        ? Kernels().mean
                        : Kernels().fold[static_cast<size_t>(reduction.kind)];
  const auto fold = row[static_cast<size_t>(reduction.dtype)];
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

void MultiplyBy(DType dtype, const void* from, void* into, size_t num_elements,
                double factor) {
  if (!IsValid(dtype)) return;
  const auto multiply = Kernels().multiply[static_cast<size_t>(dtype)];
  multiply(static_cast<const uint8_t*>(from), static_cast<uint8_t*>(into),
           num_elements, factor);
}

absl::Status Fold(DType dtype, const MergeOp& merge_op, const FinalOp& final_op,
                  const FoldBuffers& buffers) {
  const size_t num_inputs = buffers.inputs.size();
  if (FitsOnePass(dtype, merge_op, final_op, num_inputs)) {
    ReduceMany({
        .kind = merge_op.kind(),
        .dtype = dtype,
        .inputs = buffers.inputs,
        .outputs = buffers.outputs,
        .streamed = buffers.streamed,
        .num_elements = static_cast<size_t>(buffers.num_bytes) / SizeOf(dtype),
        .divisor = final_op.is_identity() ? 1 : GroupSize(buffers),
    });
    return absl::OkStatus();
  }
  alignas(64) uint8_t tile[kTileBytes];
  for (int64_t begin = 0; begin < buffers.num_bytes; begin += kTileBytes) {
    const int64_t size = std::min(kTileBytes, buffers.num_bytes - begin);
    RETURN_IF_ERROR(
        FoldTile(dtype, merge_op, final_op, buffers, begin, size, tile));
    CopyToMany(tile, At(buffers.outputs, begin), At(buffers.streamed, begin),
               static_cast<size_t>(size));
  }
  return absl::OkStatus();
}

}  // namespace tutti
