#ifndef TUTTI_REMOTE_MPI_MESSAGES_MPI_WORLD_H_
#define TUTTI_REMOTE_MPI_MESSAGES_MPI_WORLD_H_

#include <mpi.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tutti/mpi_transport.h"

namespace tutti {

// All processes of the job, as MPI in this process knows them.
//
// Functions are for MPI's thread. The fields are constant after BringUp(), but
// for the communicators.
struct MpiWorld {
  // Initialises MPI, or joins the host program's. All processes of the job call
  // it together, once. Errors: FAILED_PRECONDITION if MPI cannot be used, or if
  // the processes differ in protocol or options; errors that MPI reports.
  absl::Status BringUp(const MpiRuntime::Options& options);

  // Makes MPI end the process at an error of a communicator, from here on.
  void MakeErrorsFatal() const;

  // Frees the communicators, and ends MPI if it was brought up here. All
  // processes of the job have come to their end.
  void TakeDown();

  // Returns MPI's library, its thread level, and whether it is CUDA-aware.
  std::string Describe() const;

  bool is_ours = false;       // Brought up here.
  bool all_are_ours = false;  // Same in every process.
  int size = 0;
  int rank = 0;
  int thread_level = 0;
  int max_tag = 0;
  bool is_cuda_aware = false;
  std::string library;
  std::vector<std::string> hosts;  // By rank.

  // Set by MpiEngine: this process among those in shared memory.
  int local_rank = 0;
  int local_size = 0;
  int local_processors = 0;

  // Private copies of the communicator of all processes: for messages from any
  // process, and for bytes agreed upon.
  MPI_Comm messages = MPI_COMM_NULL;
  MPI_Comm payloads = MPI_COMM_NULL;

 private:
  absl::Status Join();
  absl::Status CopyCommunicator();
  void LearnLimits();
  absl::Status LearnHosts(bool shares_memory);
};

// Returns whether MPI takes addresses of GPU memory, by
// MPIX_Query_cuda_support(); false where that call does not exist. REQUIRES:
// MPI has been initialised.
bool MpiSaysItIsCudaAware();

// Returns the same by the header that this was built with. Call at any time.
bool MpiHeaderSaysItIsCudaAware();

}  // namespace tutti

#endif  // TUTTI_REMOTE_MPI_MESSAGES_MPI_WORLD_H_
