#ifndef TUTTI_REMOTE_MPI_MPI_TRANSPORT_H_
#define TUTTI_REMOTE_MPI_MPI_TRANSPORT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/cluster_spec.h"
#include "framework/environment.h"
#include "remote/mpi/mpi_runtime.h"

namespace tutti {

class Transport;

struct MpiTransportOptions {
  // Has been started; outlives all but calls that come after Shutdown().
  MpiRuntime* runtime = nullptr;
  ClusterSpec cluster;       // That of ClusterOf().
  uint64_t incarnation = 0;  // Of this process. Not 0.
  Environment environment;
};

// The processes of an MPI job as the tasks of a cluster: task i is rank i.
// Errors: those of MpiRuntime::rank().
absl::StatusOr<ClusterSpec> ClusterOf(const MpiRuntime& runtime);

// A transport over MPI. Small messages carry control calls, requests for bytes
// and few bytes. Many bytes the borrower's process reads where they are lent,
// if that is on its host (MpiRuntime::Options::same_host_memory); else MPI
// sends them from there, in chunks that the borrower gets one by one.
//
// Borrowers, `done` and the services are called on MPI's thread: they must not
// block, nor shut the transport down. There is one transport at a time in a
// process; the n-th one of each process talks to the n-th ones of the others. A
// task that shuts its transport down says goodbye: then what others ask it for
// ends with UNAVAILABLE. MPI does not let go of bytes that it has begun to
// send: their lender gets them back when the other process reads them or the
// job ends. MPI itself runs the collectives of implementations that leave all
// to it (mpi_collectives.h).
//
// Where MPI takes memory of GPUs, what is more than a message carries is sent
// from landings there and received in others (MpiRuntime::is_cuda_aware()).
//
// Errors: INVALID_ARGUMENT for options that make no sense.
absl::StatusOr<std::shared_ptr<Transport>> CreateMpiTransport(
    MpiTransportOptions options);

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MPI_TRANSPORT_H_
