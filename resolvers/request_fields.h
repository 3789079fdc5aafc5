#ifndef TUTTI_RESOLVERS_REQUEST_FIELDS_H_
#define TUTTI_RESOLVERS_REQUEST_FIELDS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "framework/collective_request.h"

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

}  // namespace tutti

#endif  // TUTTI_RESOLVERS_REQUEST_FIELDS_H_
