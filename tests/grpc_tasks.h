#ifndef TUTTI_TESTS_GRPC_TASKS_H_
#define TUTTI_TESTS_GRPC_TASKS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/environment.h"
#include "runtime/cluster_runtime.h"

namespace tutti {

// The tasks of a cluster, all in this process and with one device each, which
// talk over gRPC by the loopback interface and have joined. Blocks.
// `environment`'s parts outlive them.
absl::StatusOr<std::vector<std::unique_ptr<ClusterRuntime>>> JoinedGrpcTasks(
    int num_tasks, const Environment& environment);

}  // namespace tutti

#endif  // TUTTI_TESTS_GRPC_TASKS_H_
