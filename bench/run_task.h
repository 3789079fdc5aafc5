#ifndef TUTTI_BENCH_RUN_TASK_H_
#define TUTTI_BENCH_RUN_TASK_H_

#include <functional>

#include "absl/status/status.h"
#include "tutti/cluster_runtime.h"
#include "tutti/grpc_transport.h"

namespace tutti {

// What a task does once it has joined. Blocks.
using TaskWork = std::function<absl::Status(ClusterRuntime* runtime)>;

// One process of a benchmark: joins the cluster of `options`, does the work,
// and leaves. Blocks. Errors: those of each; nobody leaves after an error of
// the work.
absl::Status RunTask(ClusterRuntime::Options options, const TaskWork& work);

// The same over gRPC.
absl::Status RunTask(const GrpcTransportOptions& options, int devices_per_task,
                     const TaskWork& work);

}  // namespace tutti

#endif  // TUTTI_BENCH_RUN_TASK_H_
