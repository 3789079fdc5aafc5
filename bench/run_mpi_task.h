#ifndef TUTTI_BENCH_RUN_MPI_TASK_H_
#define TUTTI_BENCH_RUN_MPI_TASK_H_

#include "absl/status/status.h"
#include "bench/run_task.h"
#include "framework/coordinator/coordinator_settings.h"
#include "framework/environment.h"
#include "remote/mpi/mpi_runtime.h"

namespace tutti {

// RunTask() with the processes of a job as tasks, over `mpi`, which has been
// started and outlives the call. All processes do so, as often as each other.
absl::Status RunMpiTask(MpiRuntime* mpi, const Environment& environment,
                        const CoordinatorSettings& coordinator,
                        const TaskWork& work);

}  // namespace tutti

#endif  // TUTTI_BENCH_RUN_MPI_TASK_H_
