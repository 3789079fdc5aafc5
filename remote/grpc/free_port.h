#ifndef TUTTI_REMOTE_GRPC_FREE_PORT_H_
#define TUTTI_REMOTE_GRPC_FREE_PORT_H_

#include <vector>

namespace tutti {

// So many TCP ports of this host at which nobody listens, each another one; 0
// where there is none. For tests: another program may take them.
std::vector<int> FreePorts(int num_ports);

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_FREE_PORT_H_
