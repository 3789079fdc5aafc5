#ifndef TUTTI_FRAMEWORK_COLLECTIVE_SHAPES_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_SHAPES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "framework/params.h"
#include "framework/tensor_shape.h"

namespace tutti {

// The shape of one member's input and output; empty vectors ([0]) where it has
// none (HasInput, HasOutput). Errors: INVALID_ARGUMENT if the output has more
// elements than 64 bits can count.
absl::StatusOr<TensorShape> InputShape(const CollInstanceParams& instance,
                                       int group_size, int rank);
absl::StatusOr<TensorShape> OutputShape(const CollInstanceParams& instance,
                                        int group_size, int rank);

// Rows of the first dimension that `from` has for `to`, in collectives that
// move blocks: all_gather, gather, reduce_scatter, scatter and all_to_all.
int64_t BlockRows(const CollInstanceParams& instance, int group_size, int from,
                  int to);

// Elements of one row: the product of all but the first dimension.
int64_t RowElements(const TensorShape& shape);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_SHAPES_H_
