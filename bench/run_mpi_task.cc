#include "bench/run_mpi_task.h"

#include <cstdint>

#include "framework/base/status_macros.h"
#include "tutti/cluster_runtime.h"
#include "tutti/mpi_transport.h"

namespace tutti {

absl::Status RunMpiTask(MpiRuntime* mpi, const Environment& environment,
                        const CoordinatorSettings& coordinator,
                        const TaskWork& work) {
  ASSIGN_OR_RETURN(const auto cluster, ClusterOf(*mpi));
  return RunTask({.cluster = cluster,
                  .environment = environment,
                  .make_transport =
                      [&](uint64_t incarnation) {
                        return CreateMpiTransport({.runtime = mpi,
                                                   .cluster = cluster,
                                                   .incarnation = incarnation,
                                                   .environment = environment});
                      },
                  .coordinator = coordinator},
                 work);
}

}  // namespace tutti
