#ifndef TUTTI_FRAMEWORK_COORDINATOR_NAMED_TENSOR_H_
#define TUTTI_FRAMEWORK_COORDINATOR_NAMED_TENSOR_H_

#include <cstddef>
#include <string>

#include "framework/merge_op.h"
#include "framework/tensor.h"

namespace tutti {

// Any bytes, NUL too; at least one, and at most so many.
inline constexpr size_t kMaxTensorNameBytes = size_t{64} << 10;

// One rank's part in a collective that goes by name. What is written until
// `done` overlaps no other tensor that the rank has asked for: several run
// together.
struct NamedTensor {
  std::string name;  // Any bytes; at most kMaxTensorNameBytes.
  Tensor input;

  // Where the result goes; valid until `done`. A reduction's may be the input's
  // memory, and is allocated if it is not set; a gather's is always allocated.
  Tensor* output = nullptr;

  MergeOp merge_op;  // Of a reduction.
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COORDINATOR_NAMED_TENSOR_H_
