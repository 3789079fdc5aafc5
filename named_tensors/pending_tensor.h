#ifndef TUTTI_NAMED_TENSORS_PENDING_TENSOR_H_
#define TUTTI_NAMED_TENSORS_PENDING_TENSOR_H_

#include <memory>

#include "named_tensors/tensor_request.h"
#include "tutti/environment.h"
#include "tutti/named_tensors.h"

namespace tutti {

// A request that has not ended.
struct PendingTensor {
  TensorRequest request;
  NamedTensor tensor;
  StatusCallback done;
};
using PendingTensorPtr = std::shared_ptr<PendingTensor>;

}  // namespace tutti

#endif  // TUTTI_NAMED_TENSORS_PENDING_TENSOR_H_
