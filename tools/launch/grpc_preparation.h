#ifndef TUTTI_TOOLS_LAUNCH_GRPC_PREPARATION_H_
#define TUTTI_TOOLS_LAUNCH_GRPC_PREPARATION_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tools/base/environment_variables.h"

namespace tutti {

// Checks that the first certificate in the file, in PEM format, has not expired
// at `now`. Errors: FAILED_PRECONDITION naming the file and the expiry time.
// Accepts a file without a certificate: the TLS library refuses it later.
absl::Status CheckNotExpired(const std::string& path, absl::Time now);

// Whether `host` is a numeric address, "10.0.0.1" or "::1", that this machine
// does not have. False for a name, which other machines may resolve
// differently.
bool IsAddressOfAnotherMachine(const std::string& host);

// Stops gRPC from writing its own lines to standard error, unless the variable
// GRPC_VERBOSITY requests them: the tool's errors contain the same facts in one
// line. Affects the whole process from then on.
void SilenceGrpc(const Variables& variables);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_GRPC_PREPARATION_H_
