#ifndef TUTTI_FRAMEWORK_COLLECTIVE_DELEGATE_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_DELEGATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/buf_key.h"
#include "framework/collective_context.h"
#include "framework/params.h"
#include "framework/status_callback.h"

namespace tutti {

// What connects the processes of a group, where that is a library that runs
// whole collectives by itself, such as MPI. Implementations that leave all
// or a part to it find it by PeerAccessInterface::delegate().
//
// Thread-safe. It outlives the executions that it was given.
class CollectiveDelegate {
 public:
  virtual ~CollectiveDelegate() = default;

  // The library: what ImplementationTraits::delegate asks for.
  virtual absl::string_view name() const = 0;

  // As InitializeCollectiveContext() and Run() of
  // CollectiveImplementationInterface, for a group each of whose members is in
  // another process.
  virtual absl::Status Prepare(CollectiveContext* context) = 0;
  virtual void Run(const CollectiveContext& context, StatusCallback done) = 0;

  // A step begins, perhaps anew. Then its executions have the keys of others
  // before, of which nothing may be left: whoever cleans a step up has heard
  // from all that they have ended these, before it begins anew.
  virtual void OnStepBegun() {}

  // Who keeps `exec`, which waits here, from beginning, for error messages:
  // "rank 3 (/job:...)". Empty if nobody does. `group` is that of the request,
  // also where the delegate runs it among some of its members.
  virtual std::string DescribeWaiting(const CollGroupParams& group,
                                      const ExecKey& exec) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_DELEGATE_H_
