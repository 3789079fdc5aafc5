#ifndef TUTTI_TOOLS_LAUNCH_CERTIFICATE_EXPIRY_H_
#define TUTTI_TOOLS_LAUNCH_CERTIFICATE_EXPIRY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace tutti {

// Checks that the first certificate in the file, in PEM format, has not expired
// at `now`. Errors: FAILED_PRECONDITION naming the file and the expiry time.
// Accepts a file without a certificate: the TLS library refuses it later.
absl::Status CheckNotExpired(const std::string& path, absl::Time now);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_CERTIFICATE_EXPIRY_H_
