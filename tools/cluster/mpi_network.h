#ifndef TUTTI_TOOLS_CLUSTER_MPI_NETWORK_H_
#define TUTTI_TOOLS_CLUSTER_MPI_NETWORK_H_

#include "absl/status/statusor.h"
#include "tools/cluster/task_network.h"
#include "tutti/environment.h"

namespace tutti {

// Whether this tool was built with MPI.
bool HasMpi();

// Whether that MPI takes memory of GPUs, as its header says. False without MPI.
bool HasCudaAwareMpi();

// Brings MPI up in this process, which mpirun has started. MPI ends when nobody
// has the network any more. Blocks until all processes of the job do the same.
// Errors: those of MpiRuntime::Start(); UNIMPLEMENTED if this tool was built
// without MPI.
absl::StatusOr<TaskNetwork> MpiNetwork(const Environment& environment);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_MPI_NETWORK_H_
