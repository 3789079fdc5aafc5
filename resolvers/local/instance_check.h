#ifndef TUTTI_RESOLVERS_LOCAL_INSTANCE_CHECK_H_
#define TUTTI_RESOLVERS_LOCAL_INSTANCE_CHECK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tutti/collective.h"
#include "tutti/params.h"
#include "tutti/selection.h"

namespace tutti {

// Checks a decision of the group's leader: `instance` runs on an implementation
// that serves it, and on the implementation `wanted` if that is not empty. Does
// not check names that this process does not know: their look-up fails later.
// Errors: INVALID_ARGUMENT.
absl::Status CheckDecided(const SelectionPolicy& policy,
                          const CollGroupParams& group,
                          const CollTaskParams& task,
                          const CollInstanceParams& instance,
                          const std::string& wanted);

// Decides how an instance runs, for the leader of a group. `requests` are those
// of all members, in rank order. Checks that the requests agree. Returns the
// params of each member. Custom ops are those of a member of `task`, if it has
// one: ops that arrive from other tasks have only names. Pure but for the
// chosen implementation's InitializeCollectiveParams(). Errors:
// INVALID_ARGUMENT saying which ranks hold which value, or if an output is too
// large; the errors of SelectImplementation().
absl::StatusOr<std::vector<std::shared_ptr<const CollectiveParams>>>
CompleteInstance(
    const SelectionPolicy& policy,
    const std::shared_ptr<const CollGroupParams>& group,
    const std::shared_ptr<const CollTaskParams>& task,
    absl::Span<const std::shared_ptr<const CollectiveRequest>> requests);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_INSTANCE_CHECK_H_
