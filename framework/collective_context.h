#ifndef TUTTI_FRAMEWORK_COLLECTIVE_CONTEXT_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_CONTEXT_H_

#include <atomic>
#include <memory>

#include "framework/buf_key.h"
#include "framework/device.h"
#include "framework/execution.h"
#include "framework/params.h"
#include "framework/tensor.h"

namespace tutti {

class CollectiveExecutor;

// What one member's part in one execution gets. All of it is checked: the
// tensors have the dtype and shape that the params say.
struct CollectiveContext {
  std::shared_ptr<const CollectiveParams> params;
  CollectiveExecutor* executor = nullptr;
  Device* device = nullptr;
  Tensor input;   // Unset where the member has none.
  Tensor output;  // Unset where the member has none.
  ExecKey exec_key;

  // Its `cancellation` is set when the execution fails: on this member, on
  // another one, by abort, deadline or cancellation.
  Execution* execution = nullptr;

  // For the implementation, from InitializeCollectiveContext() to Run().
  const void* implementation_state = nullptr;

  // Kept by CollectiveExecutor::Launched().
  mutable std::atomic<bool> launched{false};

  int rank() const { return params->default_rank; }
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_CONTEXT_H_
