#ifndef TUTTI_FRAMEWORK_FOLD_H_
#define TUTTI_FRAMEWORK_FOLD_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/dtype.h"
#include "framework/merge_op.h"

namespace tutti {

// Buffers of one length.
struct FoldBuffers {
  absl::Span<const uint8_t* const> inputs;  // At least one.
  absl::Span<uint8_t* const> outputs;       // Each may be an input.
  absl::Span<uint8_t* const> streamed;      // More, written past the caches.
  int64_t num_bytes = 0;                    // Whole elements.
  int group_size = 0;  // For the final op; 0: as many as inputs.
};

// Every output = the inputs, merged in their order, with the final op: in one
// pass where the ops are built in, so that float16 and bfloat16 are rounded
// once, after the final op. Ops of the caller, averages of integers and groups
// of one take one more step: each tile of a few thousand bytes is reduced in
// the first-level cache, by a merge op of the caller pair by pair. Errors:
// those of the ops.
absl::Status Fold(DType dtype, const MergeOp& merge_op, const FinalOp& final_op,
                  const FoldBuffers& buffers);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_FOLD_H_
