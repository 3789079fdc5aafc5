#ifndef TUTTI_FRAMEWORK_COLLECTIVE_MEMBER_PARAMS_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_MEMBER_PARAMS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {

// Makes the params of the member with rank `rank`. Errors: INVALID_ARGUMENT if
// a shape or the output is too large.
absl::StatusOr<std::shared_ptr<const CollectiveParams>> MakeMemberParams(
    std::shared_ptr<const CollGroupParams> group,
    std::shared_ptr<const CollInstanceParams> instance,
    std::shared_ptr<const CollTaskParams> task, int rank);

// Makes params of the member that have no instance.
std::shared_ptr<const CollectiveParams> MembershipIn(
    std::shared_ptr<const CollGroupParams> group,
    std::shared_ptr<const CollTaskParams> task, int rank);

// Params of a call with `request`, whose instance was settled for the member as
// `settled`. Replaces the rows if the request gives other rows (GivesRows()),
// else returns `settled`. Errors: INVALID_ARGUMENT if the request is for
// another group size, or if this member's rows do not suit each other; errors
// of MakeMemberParams(). REQUIRES: Validate(request) is OK.
absl::StatusOr<std::shared_ptr<const CollectiveParams>> ParamsOfCall(
    std::shared_ptr<const CollectiveParams> settled,
    const CollectiveRequest& request);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_MEMBER_PARAMS_H_
