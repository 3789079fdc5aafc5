#include <algorithm>
#include <cstddef>
#include <cstring>

#include "framework/base/status_macros.h"
#include "framework/tensor/local_buffers.h"
#include "tutti/reduction.h"

namespace tutti {
namespace {

int GroupSize(const FoldBuffers& buffers) {
  return buffers.group_size > 0 ? buffers.group_size
                                : static_cast<int>(buffers.inputs.size());
}

bool FitsOnePass(DType dtype, const MergeOp& merge_op, const FinalOp& final_op,
                 size_t num_inputs) {
  return num_inputs > 1 && !merge_op.is_custom() && !final_op.is_custom() &&
         (final_op.is_identity() || IsFloating(dtype));
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
