#include "absl/status/status.h"
#include "tools/cluster/mpi_network.h"

namespace tutti {

bool HasMpi() { return false; }

bool HasCudaAwareMpi() { return false; }

absl::StatusOr<TaskNetwork> MpiNetwork(const Environment& /*environment*/) {
  return absl::UnimplementedError(
      "mpirun has started this process, but Tutti was built without MPI: "
      "install libopenmpi-dev and openmpi-bin and build it again, or say by "
      "--cluster who takes part");
}

}  // namespace tutti
