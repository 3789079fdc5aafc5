#ifndef TUTTI_FRAMEWORK_COORDINATOR_NAMED_TENSOR_H_
#define TUTTI_FRAMEWORK_COORDINATOR_NAMED_TENSOR_H_

#include <memory>
#include <string>

#include "framework/coordinator/tensor_request.h"
#include "framework/merge_op.h"
#include "framework/status_callback.h"
#include "framework/tensor.h"

namespace tutti {

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

// A request until it has ended.
struct PendingTensor {
  TensorRequest request;
  NamedTensor tensor;
  StatusCallback done;
};
using PendingTensorPtr = std::shared_ptr<PendingTensor>;

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COORDINATOR_NAMED_TENSOR_H_
