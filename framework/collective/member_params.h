#ifndef TUTTI_FRAMEWORK_COLLECTIVE_MEMBER_PARAMS_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_MEMBER_PARAMS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "tutti/collective.h"
#include "tutti/params.h"

namespace tutti {

// What the member of rank `rank` gets. Errors: INVALID_ARGUMENT if a shape or
// the output is too large.
absl::StatusOr<std::shared_ptr<const CollectiveParams>> MakeMemberParams(
    std::shared_ptr<const CollGroupParams> group,
    std::shared_ptr<const CollInstanceParams> instance,
    std::shared_ptr<const CollTaskParams> task, int rank);

// What the member gets that asked by `request`, of an instance that was settled
// for it as `settled`: where the request gives other rows (GivenRows()), by
// these; else `settled` itself. Errors: INVALID_ARGUMENT if the rows are not as
// many as the group has members, or the request's own shape is not what they
// say; those of MakeMemberParams(). REQUIRES: Validate() has found it good.
absl::StatusOr<std::shared_ptr<const CollectiveParams>> ParamsOfCall(
    std::shared_ptr<const CollectiveParams> settled,
    const CollectiveRequest& request);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_MEMBER_PARAMS_H_
