#include <cstdint>
#include <memory>
#include <utility>

#include "framework/base/status_macros.h"
#include "remote/mpi/messages/mpi_cuda.h"
#include "remote/transport_registry.h"
#include "tutti/mpi_transport.h"

namespace tutti {
namespace {

// Starts MPI in this process, which mpirun must have started. MPI ends when the
// last owner of the network releases it. Blocks until all processes of the job
// call this. Errors: those of MpiRuntime::Start().
absl::StatusOr<TaskNetwork> Connect(const NetworkSettings& settings) {
  auto runtime = std::make_shared<MpiRuntime>(
      MpiRuntime::Options{.environment = settings.environment});
  RETURN_IF_ERROR(runtime->Start());
  auto cluster = ClusterOf(*runtime);
  if (!cluster.ok()) return cluster.status();
  return TaskNetwork{
      .cluster = *cluster,
      .make_transport = [environment = settings.environment, runtime,
                         cluster = *cluster](uint64_t incarnation)
          -> absl::StatusOr<std::shared_ptr<Transport>> {
        return CreateMpiTransport({.runtime = runtime.get(),
                                   .cluster = cluster,
                                   .incarnation = incarnation,
                                   .environment = environment});
      }};
}

REGISTER_TRANSPORT(MPI, Connect, MpiHeaderSaysItIsCudaAware());

}  // namespace
}  // namespace tutti
