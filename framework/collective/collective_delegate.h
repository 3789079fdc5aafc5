#ifndef TUTTI_FRAMEWORK_COLLECTIVE_COLLECTIVE_DELEGATE_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_COLLECTIVE_DELEGATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"

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

  // Who keeps `exec`, which waits here, from beginning, for error messages:
  // "rank 3 (/job:...)". Empty if nobody does. `group` is that of the request,
  // also where the delegate runs it among some of its members.
  virtual std::string DescribeWaiting(const CollGroupParams& group,
                                      const ExecKey& exec) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_COLLECTIVE_DELEGATE_H_
