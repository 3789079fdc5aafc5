#ifndef TUTTI_TESTS_PROCESSES_MPI_TASK_H_
#define TUTTI_TESTS_PROCESSES_MPI_TASK_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Process of an MPI job, in which every process runs the same googletest tests,
// in step with the others: mpirun_test.py starts them.

// Initialises MPI, runs all tests and finalises MPI. Returns main()'s exit
// status. With the argument "adopted" the program initialises MPI itself, Tutti
// adopts it, and the program's messages do not reach Tutti. Blocks on the other
// processes.
int RunTestsUnderMpi(int* argc, char** argv);

// Environment of the tests, with threads.
const Environment& MpiTestEnvironment();

// Makes a runtime that has joined, over MPI; its tasks are the processes of the
// job. Blocks. Sets the cluster, the environment, the transport and a patient
// health profile in `options`. Only one may exist at a time, within
// RunTestsUnderMpi().
absl::StatusOr<std::unique_ptr<ClusterRuntime>> JoinedMpiTask(
    ClusterRuntime::Options options);

// Announces the end of this task, waits until the other tasks announce theirs,
// and destroys the runtime. Blocks.
absl::Status LeaveMpiTask(std::unique_ptr<ClusterRuntime> runtime);

}  // namespace tutti

#endif  // TUTTI_TESTS_PROCESSES_MPI_TASK_H_
