#ifndef TUTTI_FRAMEWORK_COLLECTIVE_CONTEXT_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "framework/buf_key.h"
#include "framework/device.h"
#include "framework/execution.h"
#include "framework/params.h"
#include "framework/segment_list.h"
#include "framework/tensor.h"

namespace tutti {

class CollectiveExecutor;

// How results are written where the members share memory.
enum class StoreHint : uint8_t {
  kBySize,      // Past the caches if they would not stay there anyway.
  kToCaches,    // For who reads them soon, however large they are.
  kPastCaches,  // For who reads them late: spares what is in the caches.
};

// What one member's part in one execution gets. All of it is checked: the
// tensors have the dtype and shape that the params say.
struct CollectiveContext {
  const CollectiveParams* params = nullptr;  // Valid as the context is.
  CollectiveExecutor* executor = nullptr;
  Device* device = nullptr;
  Tensor input;   // Unset where the member has none.
  Tensor output;  // Unset where the member has none, or `late_output` is set.

  // Where the implementation puts the output that it makes for this member, or
  // for all that have this, before `done`. It may hold the one of the context's
  // last execution, which is then free to be written again. Null but for
  // implementations that share outputs, where the member allows it.
  Tensor* late_output = nullptr;

  // What input and output are made of, if not of one tensor each
  // (CollectiveArgs::segments). An implementation that does not take segments
  // (ImplementationTraits) has input and output all the same.
  std::shared_ptr<const SegmentList> segments;

  StoreHint store_hint = StoreHint::kBySize;

  // Where the output is once the implementation has ended.
  const Tensor& result() const {
    return late_output == nullptr ? output : *late_output;
  }

  ExecKey exec_key;

  // Its `cancellation` is set when the execution fails: on this member, on
  // another one, by abort, deadline or cancellation.
  Execution* execution = nullptr;

  // The tags of its transfers count from here. Not 0 where an implementation
  // runs another one several times in an execution: schedules heed it.
  int32_t first_tag = 0;

  // For the implementation, from InitializeCollectiveContext() to Run().
  const void* implementation_state = nullptr;

  // Kept by CollectiveExecutor::Launched(); set by an implementation that
  // launches by another context in the place of this one.
  mutable std::atomic<bool> launched{false};

  int rank() const { return params->default_rank; }
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_CONTEXT_H_
