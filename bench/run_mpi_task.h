#ifndef TUTTI_BENCH_RUN_MPI_TASK_H_
#define TUTTI_BENCH_RUN_MPI_TASK_H_

#include "absl/status/status.h"
#include "bench/run_task.h"
#include "tutti/environment.h"
#include "tutti/mpi_transport.h"
#include "tutti/named_tensors.h"

namespace tutti {

// RunTask() with the processes of a job as tasks, over `mpi`, which has been
// started and outlives the call. All processes make the same number of calls.
absl::Status RunMpiTask(MpiRuntime* mpi, const Environment& environment,
                        const CoordinatorSettings& coordinator,
                        const TaskWork& work);

}  // namespace tutti

#endif  // TUTTI_BENCH_RUN_MPI_TASK_H_
