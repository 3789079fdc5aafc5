#ifndef TUTTI_TOOLS_CLUSTER_TASK_NETWORK_H_
#define TUTTI_TOOLS_CLUSTER_TASK_NETWORK_H_

#include "tutti/cluster_runtime.h"

namespace tutti {

// Members of a cluster, and the transport of this task.
struct TaskNetwork {
  ClusterSpec cluster;

  // Owns what the transports need; must outlive them.
  ClusterRuntime::TransportFactory make_transport;
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_TASK_NETWORK_H_
