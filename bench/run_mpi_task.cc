#include "bench/run_mpi_task.h"

#include <cstdint>

#include "tutti/cluster_runtime.h"
#include "tutti/mpi_transport.h"

namespace tutti {

absl::Status RunMpiTask(MpiRuntime* mpi, const Environment& environment,
                        const CoordinatorSettings& coordinator,
                        const TaskWork& work) {
  const auto cluster = ClusterOf(*mpi);
  if (!cluster.ok()) return cluster.status();
  return RunTask({.cluster = *cluster,
                  .environment = environment,
                  .make_transport =
                      [&](uint64_t incarnation) {
                        return CreateMpiTransport({.runtime = mpi,
                                                   .cluster = *cluster,
                                                   .incarnation = incarnation,
                                                   .environment = environment});
                      },
                  .coordinator = coordinator},
                 work);
}

}  // namespace tutti
