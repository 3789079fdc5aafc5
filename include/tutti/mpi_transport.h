#ifndef TUTTI_MPI_TRANSPORT_H_
#define TUTTI_MPI_TRANSPORT_H_

// Transport over MPI: the processes of an MPI job as the tasks of a cluster.
// MpiRuntime brings MPI up and owns the one thread that calls it. A library
// of its own; includes no header of MPI.

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

// MPI in this process: brought up once, and called by one thread, which the
// runtime owns; so every level of thread support will do. While there is
// nothing to do the thread sleeps. Processes of its host ring when they have
// sent something; for those of other hosts it looks every few milliseconds.
//
// Where a process that is called lost has kept tensors from their owner for
// `lost_limit`, a line on stderr names it, and the job
// ends; if the host program has brought MPI up, only the line comes, once.
//
// Thread-safe, except that Start() and Shutdown() are for one thread.
class MpiRuntime {
 public:
  struct Options {
    Environment environment;

    // For how long the thread looks again and again, giving way to others,
    // after the last time that there was something to do.
    absl::Duration spin_limit = absl::Microseconds(100);

    // The same, while bytes move, and while MPI runs a collective, of which
    // nobody hears until it is over; both where the host has a processor per
    // process. A collective of many rounds, of which each waits for a look,
    // takes long once they are rare.
    absl::Duration moving_spin_limit = absl::Milliseconds(2);
    absl::Duration running_spin_limit = absl::Seconds(1);

    // False: as if each process were on a host of its own. The same on all.
    bool shares_memory = true;

    // Whether processes of one host, and one user, read large tensors from each
    // other's memory, where the system lets them. Both must want it.
    bool same_host_memory = true;

    // Whether MPI reads and writes memory of GPUs, of cudaMalloc alone, so that
    // what goes and comes need not pass through the host's; the GPUs' runtime
    // then outlives this one. Not set: as it says itself.
    std::optional<bool> is_cuda_aware;

    // Runs on MPI's thread before MPI is brought up: makes the GPU current
    // there that such an MPI is to work with, by cudaSetDevice(); without one,
    // also of GPU 0, the driver may refuse what MPI asks of it. Null will do
    // where MPI gets no memory of GPUs.
    std::function<void()> on_thread;

    // For how long to wait for those that were called lost: in Shutdown(), and
    // where MPI keeps tensors of collectives that have failed until they go on.
    // How long Start() waits before it says so.
    absl::Duration lost_limit = absl::Seconds(10);
  };

  explicit MpiRuntime(Options options);
  ~MpiRuntime();  // Shuts down.
  MpiRuntime(const MpiRuntime&) = delete;
  MpiRuntime& operator=(const MpiRuntime&) = delete;

  // Brings MPI up, or takes part in one that the host program has brought up,
  // and ends after Shutdown(). All processes do it together: blocks until they
  // have, however late they are, which a line on stderr says after
  // `lost_limit`; what was posted before runs then. Errors: INVALID_ARGUMENT
  // without a clock; FAILED_PRECONDITION if MPI is over in this process, if the
  // host program's cannot be called from several threads (MPI_THREAD_MULTIPLE),
  // or if the processes run different versions of Tutti's protocol, or differ
  // in `shares_memory`; INTERNAL for what MPI reports. Then what was posted
  // before is never run.
  absl::Status Start();

  // Ends the thread, and MPI unless the host program has brought it up. Blocks
  // until all processes do it. Nothing is polled after this.
  //
  // As long as some are called lost it waits `lost_limit` for the others: then
  // it names the lost on stderr, and ends the job; or, where the host program
  // has brought MPI up, returns, and leaves to MPI what it has of it.
  void Shutdown();

  // Of all processes; of this one; among those that share its memory; and the
  // processors of these. Errors: FAILED_PRECONDITION if MPI has not been
  // initialised.
  absl::StatusOr<int> size() const;
  absl::StatusOr<int> rank() const;
  absl::StatusOr<int> local_rank() const;
  absl::StatusOr<int> local_size() const;
  absl::StatusOr<int> local_processors() const;

  // The name of the host of each rank, as MPI has it.
  absl::StatusOr<std::vector<std::string>> hosts() const;

  // Whether MPI may be given memory of GPUs; false if it has not been
  // initialised.
  bool is_cuda_aware() const;

  // "Open MPI v4.1.4, ...", the level of thread support, and whether it is
  // CUDA-aware.
  absl::StatusOr<std::string> Describe() const;

  // For the library.
  MpiEngine& engine() { return *engine_; }

 private:
  const std::unique_ptr<MpiEngine> engine_;
};

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

#endif  // TUTTI_MPI_TRANSPORT_H_
