#ifndef TUTTI_BENCH_RUN_TASK_H_
#define TUTTI_BENCH_RUN_TASK_H_

#include <functional>

#include "absl/status/status.h"
#include "tutti/cluster_runtime.h"
#include "tutti/grpc_transport.h"

namespace tutti {

// Work of a task once it has joined. Blocks.
using TaskWork = std::function<absl::Status(ClusterRuntime* runtime)>;

// Runs a process of a benchmark: joins the cluster of `options`, runs `work`,
// and leaves. Blocks. Errors: those of the three steps; after an error of
// `work` the task does not leave.
absl::Status RunTask(ClusterRuntime::Options options, const TaskWork& work);

// Runs the task over gRPC.
absl::Status RunTask(const GrpcTransportOptions& options, int devices_per_task,
                     const TaskWork& work);

}  // namespace tutti

#endif  // TUTTI_BENCH_RUN_TASK_H_
