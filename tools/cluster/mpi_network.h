#ifndef TUTTI_TOOLS_CLUSTER_MPI_NETWORK_H_
#define TUTTI_TOOLS_CLUSTER_MPI_NETWORK_H_

#include "absl/status/statusor.h"
#include "tools/cluster/task_network.h"
#include "tutti/environment.h"

namespace tutti {

// Whether this tool was built with MPI.
bool HasMpi();

// Whether MPI's header says that it accepts GPU memory. False without MPI.
bool HasCudaAwareMpi();

// Starts MPI in this process, which mpirun must have started. MPI ends when the
// last owner of the network releases it. Blocks until all processes of the job
// call this. Errors: those of MpiRuntime::Start(); UNIMPLEMENTED if this tool
// was built without MPI.
absl::StatusOr<TaskNetwork> MpiNetwork(const Environment& environment);

}  // namespace tutti

#endif  // TUTTI_TOOLS_CLUSTER_MPI_NETWORK_H_
