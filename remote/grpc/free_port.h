#ifndef TUTTI_REMOTE_GRPC_FREE_PORT_H_
#define TUTTI_REMOTE_GRPC_FREE_PORT_H_

namespace tutti {

// A TCP port of this host at which nobody listens. For tests: another program
// may take it.
int FreePort();

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_FREE_PORT_H_
