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

// Whether what the leader of a group has decided can be: `instance` is run by
// an implementation that serves it, and by the one that `wanted` names if that
// is not empty. What this process does not know is left to who looks it up.
// Errors: INVALID_ARGUMENT.
absl::Status CheckDecided(const SelectionPolicy& policy,
                          const CollGroupParams& group,
                          const CollTaskParams& task,
                          const CollInstanceParams& instance,
                          const std::string& wanted);

// What the leader of a group decides about an instance once it has the request
// of every member, in rank order: that they agree, and how it runs. Answers
// with the params of each member, with the ops of a member of `task` if it has
// one: what others sent has their names alone. Pure but for the chosen
// implementation's InitializeCollectiveParams(). Errors: INVALID_ARGUMENT
// saying which ranks hold which value, or if an output is too large; those of
// SelectImplementation().
absl::StatusOr<std::vector<std::shared_ptr<const CollectiveParams>>>
CompleteInstance(
    const SelectionPolicy& policy,
    const std::shared_ptr<const CollGroupParams>& group,
    const std::shared_ptr<const CollTaskParams>& task,
    absl::Span<const std::shared_ptr<const CollectiveRequest>> requests);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_LOCAL_INSTANCE_CHECK_H_
