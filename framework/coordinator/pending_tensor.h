#ifndef TUTTI_FRAMEWORK_COORDINATOR_PENDING_TENSOR_H_
#define TUTTI_FRAMEWORK_COORDINATOR_PENDING_TENSOR_H_

#include <memory>

#include "framework/coordinator/named_tensor.h"
#include "framework/coordinator/tensor_request.h"
#include "framework/status_callback.h"

namespace tutti {

// A request until it has ended.
struct PendingTensor {
  TensorRequest request;
  NamedTensor tensor;
  StatusCallback done;
};
using PendingTensorPtr = std::shared_ptr<PendingTensor>;

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COORDINATOR_PENDING_TENSOR_H_
