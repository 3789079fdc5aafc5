#ifndef TUTTI_TOOLS_LAUNCH_QUIET_GRPC_H_
#define TUTTI_TOOLS_LAUNCH_QUIET_GRPC_H_

#include "tools/base/environment_variables.h"

namespace tutti {

// Stops gRPC from writing its own lines to standard error, unless the variable
// GRPC_VERBOSITY requests them: the tool's errors contain the same facts in one
// line. Affects the whole process from then on.
void SilenceGrpc(const Variables& variables);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_QUIET_GRPC_H_
