#ifndef TUTTI_FRAMEWORK_COLLECTIVE_REQUEST_FIELDS_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_REQUEST_FIELDS_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tutti/collective.h"

namespace tutti {

// Part of a request that must be equal for all members.
struct RequestField {
  absl::string_view name;
  bool (*same)(const CollectiveRequest& a, const CollectiveRequest& b);

  // Returns the whole value, of any length.
  std::string (*text)(const CollectiveRequest& request);
};

// Returns the most informative field in which the requests differ; null if both
// run the same collective. Fields at lower addresses are more informative.
const RequestField* FirstDifference(const CollectiveRequest& a,
                                    const CollectiveRequest& b);

// Returns the field's value for messages: at most one line; "none" if empty.
std::string ValueText(const RequestField& field,
                      const CollectiveRequest& request);

// Returns a request for the group alone, which keeps only the group's fields
// and the instance key. Errors: as Validate(), for the group's fields.
absl::StatusOr<std::shared_ptr<const CollectiveRequest>> RequestOfGroup(
    const CollectiveRequest& request);

// Returns "group 1, instance 2".
std::string InstanceLabel(const CollectiveRequest& request);

// Checks that a member's request `now` equals its request `first`, with which
// the instance was completed. Rows of one execution, and the first dimension
// with them, may differ. Errors: INVALID_ARGUMENT naming both values.
absl::Status CheckSameRequest(const CollectiveRequest& first,
                              const CollectiveRequest& now);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_REQUEST_FIELDS_H_
