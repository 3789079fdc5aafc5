#ifndef TUTTI_TESTS_PROCESSES_MPI_TASK_H_
#define TUTTI_TESTS_PROCESSES_MPI_TASK_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// One process of an MPI job, each of which runs the same tests of googletest,
// in step with the others: mpirun_test.py starts them.

// Brings MPI up, runs all tests and ends MPI: what main() returns. With the
// argument "adopted" the program has an MPI of its own, which Tutti adopts; its
// messages are others than Tutti's. Blocks on the other processes.
int RunTestsUnderMpi(int* argc, char** argv);

// Of the tests; with threads.
const Environment& MpiTestEnvironment();

// A runtime whose tasks are the processes of the job, over MPI, which has
// joined. Blocks. Of `options`, the cluster, the environment, the transport and
// the health profile, a patient one, are filled in. One at a time, and within
// RunTestsUnderMpi().
absl::StatusOr<std::unique_ptr<ClusterRuntime>> JoinedMpiTask(
    ClusterRuntime::Options options);

// Says that this task is done, waits for the others to say so, and ends it.
// Blocks.
absl::Status LeaveMpiTask(std::unique_ptr<ClusterRuntime> runtime);

}  // namespace tutti

#endif  // TUTTI_TESTS_PROCESSES_MPI_TASK_H_
