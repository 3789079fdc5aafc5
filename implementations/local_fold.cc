#include "implementations/local_fold.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "framework/reduction.h"
#include "implementations/local_buffers.h"

namespace tutti {
namespace {

bool FitsOnePass(const CollInstanceParams& instance, size_t group_size) {
  return group_size > 1 && !instance.merge_op.is_custom() &&
         !instance.final_op.is_custom() &&
         (instance.final_op.is_identity() || IsFloating(instance.dtype));
}

// Bytes [begin, begin + num_bytes) of the inputs, with the final op.
absl::Status FoldTile(const CollInstanceParams& instance,
                      const FoldBuffers& buffers, int64_t begin,
                      int64_t num_bytes, uint8_t* tile) {
  const auto num_elements =
      num_bytes / static_cast<int64_t>(SizeOf(instance.dtype));
  const uint8_t* sum = buffers.inputs[0] + begin;
  if (buffers.inputs.size() == 1) {
    std::memcpy(tile, sum, static_cast<size_t>(num_bytes));
  }
  for (const uint8_t* input : buffers.inputs.subspan(1)) {
    const absl::Status status = instance.merge_op.Apply(
        instance.dtype, sum, input + begin, tile, num_elements);
    if (!status.ok()) return status;
    sum = tile;
  }
  if (instance.final_op.is_identity()) return absl::OkStatus();
  return instance.final_op.Apply(instance.dtype, tile, num_elements,
                                 static_cast<int>(buffers.inputs.size()));
}

}  // namespace

absl::Status Fold(const CollInstanceParams& instance,
                  const FoldBuffers& buffers) {
  const size_t group_size = buffers.inputs.size();
  if (FitsOnePass(instance, group_size)) {
    ReduceMany({
        .kind = instance.merge_op.kind(),
        .dtype = instance.dtype,
        .inputs = buffers.inputs,
        .outputs = buffers.outputs,
        .streamed = buffers.streamed,
        .num_elements =
            static_cast<size_t>(buffers.num_bytes) / SizeOf(instance.dtype),
        .divisor = instance.final_op.is_identity()
                       ? 1
                       : static_cast<int64_t>(group_size),
    });
    return absl::OkStatus();
  }
  alignas(64) uint8_t tile[kTileBytes];
  for (int64_t begin = 0; begin < buffers.num_bytes; begin += kTileBytes) {
    const int64_t size = std::min(kTileBytes, buffers.num_bytes - begin);
    const absl::Status status = FoldTile(instance, buffers, begin, size, tile);
    if (!status.ok()) return status;
    CopyToMany(tile, At(buffers.outputs, begin), At(buffers.streamed, begin),
               static_cast<size_t>(size));
  }
  return absl::OkStatus();
}

}  // namespace tutti
