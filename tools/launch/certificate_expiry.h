#ifndef TUTTI_TOOLS_LAUNCH_CERTIFICATE_EXPIRY_H_
#define TUTTI_TOOLS_LAUNCH_CERTIFICATE_EXPIRY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tutti {

// Whether the first certificate in the file, in PEM format, is good at `now` as
// far as its end goes. Errors: FAILED_PRECONDITION naming the file and when it
// expired. A file without a certificate is for whoever uses it to refuse.
absl::Status CheckNotExpired(const std::string& path, absl::Time now);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_CERTIFICATE_EXPIRY_H_
