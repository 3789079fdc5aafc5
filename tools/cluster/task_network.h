#ifndef TUTTI_TOOLS_CLUSTER_TASK_NETWORK_H_
#define TUTTI_TOOLS_CLUSTER_TASK_NETWORK_H_

#include "tutti/cluster_runtime.h"

namespace tutti {

// Who the tasks of a cluster are, and how this one talks to them.
struct TaskNetwork {
  ClusterSpec cluster;

  // Keeps what the transports need, and is kept for longer than these.
  ClusterRuntime::TransportFactory make_transport;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_TASK_NETWORK_H_
