#ifndef TUTTI_FRAMEWORK_COLLECTIVE_OBSERVER_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_OBSERVER_H_

#include <cstdint>

#include "framework/collective_request.h"
#include "framework/device.h"
#include "framework/segment_list.h"
#include "framework/tensor.h"

namespace tutti {

// Sees what the members of this process get from their collectives, whatever
// implementation ran.
class CollectiveObserver {
 public:
  // One member's part in one execution, which has ended with OK. Valid during
  // the call.
  struct Finished {
    Device& device;  // The member.
    const CollectiveRequest& request;
    int64_t step_id = 0;
    uint64_t execution = 0;  // Of the instance in this step.

    // Complete. Unset where the member has none. Nobody writes it until the
    // call returns; whoever wants it later copies it.
    const Tensor& output;

    // Where the outputs of the segments are the output; null: there are none.
    const SegmentList* segments = nullptr;
  };

  virtual ~CollectiveObserver() = default;

  // Runs once for each such part, before its `done` and on the same thread,
  // with no lock held; those of other members may run at once. This one's
  // `done` waits for it, and so do other members whose parts end on the same
  // thread: must not block or throw. Parts that fail, and preparations, are not
  // shown.
  virtual void OnFinished(const Finished& finished) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_OBSERVER_H_
