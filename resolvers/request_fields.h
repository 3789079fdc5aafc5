#ifndef TUTTI_RESOLVERS_REQUEST_FIELDS_H_
#define TUTTI_RESOLVERS_REQUEST_FIELDS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/collective_request.h"

namespace tutti {

// A part of a request on which members must agree, as text.
struct RequestField {
  absl::string_view name;
  std::string value;
};

// All of them, in the order in which a difference is most telling. Requests
// whose fields are equal run the same collective.
std::vector<RequestField> FieldsOf(const CollectiveRequest& request);

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_REQUEST_FIELDS_H_
