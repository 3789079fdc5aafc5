#ifndef TUTTI_TOOLS_LAUNCH_QUIET_GRPC_H_
#define TUTTI_TOOLS_LAUNCH_QUIET_GRPC_H_

#include "tools/base/environment_variables.h"

namespace tutti {

// Keeps gRPC from writing lines of its own to standard error, unless the
// variable GRPC_VERBOSITY asks for them: what they say, the errors of the tool
// say in one line. For the whole process, from then on.
void SilenceGrpc(const Variables& variables);

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_QUIET_GRPC_H_
