#ifndef TUTTI_FRAMEWORK_COLLECTIVE_REQUEST_FIELDS_H_
#define TUTTI_FRAMEWORK_COLLECTIVE_REQUEST_FIELDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tutti/collective.h"

namespace tutti {

// A part of a request on which members must agree.
struct RequestField {
  absl::string_view name;
  bool (*same)(const CollectiveRequest& a, const CollectiveRequest& b);

  // As long as the value is.
  std::string (*text)(const CollectiveRequest& request);
};

// The most telling field in which the requests differ; null if both run the
// same collective. Of several fields, the more telling one is at the lower
// address.
const RequestField* FirstDifference(const CollectiveRequest& a,
                                    const CollectiveRequest& b);

// The field's value, for messages: not longer than a line, "none" if empty.
std::string ValueText(const RequestField& field,
                      const CollectiveRequest& request);

// "group 1, instance 2".
std::string InstanceLabel(const CollectiveRequest& request);

// That `now` asks for what `first` asked for when the instance was completed,
// both being requests of one member: but for AllGather::rows and the first
// dimension that goes with them. Errors: INVALID_ARGUMENT naming both
// values.
absl::Status CheckSameRequest(const CollectiveRequest& first,
                              const CollectiveRequest& now);

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_COLLECTIVE_REQUEST_FIELDS_H_
