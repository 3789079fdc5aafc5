#ifndef TUTTI_FRAMEWORK_REDUCE_FOLD_PREFIXES_H_
#define TUTTI_FRAMEWORK_REDUCE_FOLD_PREFIXES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Buffers of a scan. Output r may be input r, and overlaps nothing else.
struct PrefixBuffers {
  absl::Span<const uint8_t* const> inputs;  // At least one.
  absl::Span<uint8_t* const> outputs;       // As many; null: not wanted.
  bool is_exclusive = false;  // Output r lacks input r; output 0 is null.
  bool past_caches = false;   // For outputs that are not in place.
  int64_t begin = 0;          // Bytes to work on, in each buffer: multiples of
  int64_t num_bytes = 0;      // the element size.
};

// Writes the reduction of inputs 0 to r to each output r, with the bits that
// Fold() of these inputs gives. Makes one pass over memory: reads every input
// once, in tiles, and writes every output once. Errors: any error of the op.
absl::Status FoldPrefixes(DType dtype, const MergeOp& merge_op,
                          const PrefixBuffers& buffers);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_REDUCE_FOLD_PREFIXES_H_
