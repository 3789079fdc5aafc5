#ifndef TUTTI_FRAMEWORK_COLLECTIVE_IMPLEMENTATION_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_IMPLEMENTATION_H_

#include "absl/status/status.h"
#include "framework/collective_context.h"
#include "framework/params.h"
#include "framework/status_callback.h"

namespace tutti {

// How a collective is done. One object serves one member of one instance, for
// all its executions, of which several may run at a time.
//
// Thread-safe. Once `done` has begun, the context that was given to Run() may
// be that of another execution, and this object may be gone, also while Run()
// is under way: neither is looked at any more.
class CollectiveImplementationInterface {
 public:
  virtual ~CollectiveImplementationInterface() = default;

  // On the group's leader, once per instance, before any member hears of the
  // choice: completes `instance->impl_details`. Errors end the instance on all
  // members. Must not call the resolver.
  virtual absl::Status InitializeCollectiveParams(
      const CollGroupParams& /*group*/, CollInstanceParams* /*instance*/) {
    return absl::OkStatus();
  }

  // On the group's leader, once per group, for each registered implementation
  // that serves the group's device type, and whose needs of devices the group
  // meets: adds what it needs to `group->runtime_details`. Errors end the
  // group.
  virtual absl::Status InitializeCollectiveGroupRuntimeDetails(
      CollGroupParams* /*group*/) {
    return absl::OkStatus();
  }

  // Before the first execution that has this context: finds what it needs, but
  // for what belongs to an execution. A prepared collective runs with one
  // context again and again. Errors end the execution.
  virtual absl::Status InitializeCollectiveContext(
      CollectiveContext* context) = 0;

  // Runs `done` exactly once, when nothing of the execution touches the
  // context's tensors any more. Calls CollectiveExecutor::Launched() when what
  // must be ordered among collectives has begun; ends soon with an error once
  // `context.execution->cancellation` is set.
  virtual void Run(const CollectiveContext& context, StatusCallback done) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_IMPLEMENTATION_H_
