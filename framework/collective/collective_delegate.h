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

// Library that connects the processes of a group and can run whole collectives,
// such as MPI. Implementations that delegate all or a part of their work find
// it by PeerAccessInterface::delegate().
//
// Thread-safe. Outlives the executions given to it.
class CollectiveDelegate {
 public:
  virtual ~CollectiveDelegate() = default;

  // Name of the library, as in ImplementationTraits::delegate.
  virtual absl::string_view name() const = 0;

  // Prepare and Run do the same as InitializeCollectiveContext() and Run() of
  // CollectiveImplementationInterface, for a group with one member per process.
  virtual absl::Status Prepare(CollectiveContext* context) = 0;
  virtual void Run(const CollectiveContext& context, StatusCallback done) = 0;

  // Describes the members that keep `exec`, which waits here, from beginning,
  // for error messages: "rank 3 (/job:...)". Empty if none does. `group` is the
  // request's group, even if the delegate runs among only some of its members.
  virtual std::string DescribeWaiting(const CollGroupParams& group,
                                      const ExecKey& exec) = 0;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_COLLECTIVE_DELEGATE_H_
