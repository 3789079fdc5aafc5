#include "tools/cluster/mpi_network.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "remote/mpi/messages/mpi_cuda.h"
#include "tutti/mpi_transport.h"

namespace tutti {

bool HasMpi() { return true; }

bool HasCudaAwareMpi() { return MpiHeaderSaysItIsCudaAware(); }

absl::StatusOr<TaskNetwork> MpiNetwork(const Environment& environment) {
  auto runtime = std::make_shared<MpiRuntime>(
      MpiRuntime::Options{.environment = environment});
  const absl::Status status = runtime->Start();
  if (!status.ok()) return status;
  auto cluster = ClusterOf(*runtime);
  if (!cluster.ok()) return cluster.status();
  return TaskNetwork{
      .cluster = *cluster,
      .make_transport = [environment, runtime,
                         cluster = *cluster](uint64_t incarnation)
          -> absl::StatusOr<std::shared_ptr<Transport>> {
        return CreateMpiTransport({.runtime = runtime.get(),
                                   .cluster = cluster,
                                   .incarnation = incarnation,
                                   .environment = environment});
      }};
}

}  // namespace tutti
