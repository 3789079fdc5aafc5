#ifndef TUTTI_MPI_TRANSPORT_H_
#define TUTTI_MPI_TRANSPORT_H_

// Transport over MPI: the processes of an MPI job as the tasks of a cluster.
// MpiRuntime initialises MPI and owns the one thread that calls it. A separate
// library; includes no header of MPI.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

class MpiEngine;

// MPI in this process: initialised once, and called only by the runtime's
// thread, so every level of thread support is enough. An idle thread sleeps.
// Processes of the same host wake it when they have sent a message; for other
// hosts it polls every few milliseconds.
//
// A lost process may keep tensors from their owner for `lost_limit`. Then a
// line on stderr names that process, and the job ends. If the host program has
// initialised MPI, the line is printed once and the job continues.
//
// Thread-safe, except that one thread calls Start() and Shutdown().
class MpiRuntime {
 public:
  struct Options {
    Environment environment;

    // Time for which the thread still polls, yielding to other threads, after
    // the last activity.
    absl::Duration spin_limit = DefaultTime("spin");

    // Polling times while bytes move, and while MPI runs a collective. They
    // apply if the host has a processor per process. MPI does not signal the
    // end of a collective. A collective of many rounds needs a poll per round,
    // so rare polls would make it slow.
    absl::Duration moving_spin_limit = DefaultTime("moving spin");
    absl::Duration running_spin_limit = DefaultTime("running spin");

    // False: treats each process as if it had a host alone. Equal in all
    // processes.
    bool shares_memory = true;

    // Allows processes of one user on one host to read large tensors from each
    // other's memory, if the system permits. Both processes must allow it.
    bool same_host_memory = true;

    // Allows MPI to read and write memory of GPUs (of cudaMalloc only), so
    // messages need not pass through host memory. The GPUs' runtime then
    // outlives this runtime. Unset: as MPI reports.
    std::optional<bool> is_cuda_aware;

    // Runs on MPI's thread before MPI is initialised: makes a GPU current on
    // this thread by cudaSetDevice(), for an MPI that uses GPU memory. Needed
    // also for GPU 0; without it the driver may refuse MPI's calls. Null is
    // fine if MPI gets no memory of GPUs.
    std::function<void()> on_thread;

    // Time to wait for lost processes: in Shutdown(), and while MPI keeps
    // tensors of failed collectives until lost processes continue. Also the
    // time after which Start() reports that it waits.
    absl::Duration lost_limit = DefaultTime("lost");
  };

  explicit MpiRuntime(Options options);
  ~MpiRuntime();  // Calls Shutdown().
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  // Initialises MPI, or joins an MPI that the host program has initialised,
  // until Shutdown(). Blocks until all processes have called it; after
  // `lost_limit` a line on stderr reports the wait. Then runs all work posted
  // before.
  //
  // Errors: INVALID_ARGUMENT without a clock; INTERNAL for errors of MPI.
  // FAILED_PRECONDITION if MPI has ended in this process; if the host program's
  // MPI cannot be called from several threads (MPI_THREAD_MULTIPLE); or if the
  // processes differ in the version of Tutti's protocol or in `shares_memory`.
  // After an error, work posted before never runs.
  absl::Status Start();

  // Ends the thread, and MPI unless the host program has initialised it. Blocks
  // until all processes call it. Nothing is polled afterwards.
  //
  // While processes are lost, it waits `lost_limit` for the others. Then it
  // names the lost processes on stderr and ends the job. If the host program
  // has initialised MPI, it returns instead, and leaves to MPI the memory that
  // MPI holds.
  void Shutdown();

  // Number of all processes; rank of this process; its rank and the number of
  // processes in shared memory; and the number of their processors. Errors:
  // FAILED_PRECONDITION if MPI is not initialised.
  absl::StatusOr<int> size() const;
  absl::StatusOr<int> rank() const;
  absl::StatusOr<int> local_rank() const;
  absl::StatusOr<int> local_size() const;
  absl::StatusOr<int> local_processors() const;

  // Host name of each rank, as reported by MPI.
  absl::StatusOr<std::vector<std::string>> hosts() const;

  // True if MPI accepts memory of GPUs; false if MPI is not initialised.
  bool is_cuda_aware() const;

  // Returns "Open MPI v4.1.4, ...", the level of thread support, and whether
  // MPI is CUDA-aware.
  absl::StatusOr<std::string> Describe() const;

  // For the library.
  MpiEngine& engine() { return *engine_; }

 private:
  const std::unique_ptr<MpiEngine> engine_;
};

class Transport;

struct MpiTransportOptions {
  // A started runtime. Outlives all calls except those after Shutdown().
  MpiRuntime* runtime = nullptr;
  ClusterSpec cluster;       // Result of ClusterOf().
  uint64_t incarnation = 0;  // Incarnation of this process. Not 0.
  Environment environment;
};

// Describes the processes of an MPI job as the tasks of a cluster: task i is
// rank i. Errors: as MpiRuntime::rank().
absl::StatusOr<ClusterSpec> ClusterOf(const MpiRuntime& runtime);

// Creates a transport over MPI. Small messages carry control calls, requests
// for bytes, and short payloads. A receiver on the same host reads long
// payloads from the sender's memory (MpiRuntime::Options::same_host_memory).
// Otherwise MPI sends them from there in chunks, and the receiver gets one
// chunk after the other.
//
// Receivers, `done` and the services are called on MPI's thread: they must not
// block or shut the transport down. A process has one transport at a time; the
// n-th transports of all processes connect to each other. A task that shuts its
// transport down informs the others: their later requests to it end with
// UNAVAILABLE.
//
// MPI cannot cancel a send that has begun. The sender gets these bytes back
// when the other process reads them or the job ends. MPI itself runs the
// collectives of implementations that delegate to it (mpi_collectives.h).
//
// If MPI accepts memory of GPUs, long payloads are sent from landings there and
// received in landings (MpiRuntime::is_cuda_aware()).
//
// Errors: INVALID_ARGUMENT for invalid options.
absl::StatusOr<std::shared_ptr<Transport>> CreateMpiTransport(
    MpiTransportOptions options);

}  // namespace tutti

#endif  // TUTTI_MPI_TRANSPORT_H_
