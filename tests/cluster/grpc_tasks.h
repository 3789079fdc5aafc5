#ifndef TUTTI_TESTS_CLUSTER_GRPC_TASKS_H_
#define TUTTI_TESTS_CLUSTER_GRPC_TASKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/named_tensors.h"

namespace tutti {

// The tasks of a cluster, all in this process and with one device of the host
// each, or those of `make_devices(task, incarnation)`. They talk over gRPC by
// the loopback interface and have joined. Blocks. `environment`'s parts outlive
// them.
absl::StatusOr<std::vector<std::unique_ptr<ClusterRuntime>>> JoinedGrpcTasks(
    int num_tasks, const Environment& environment,
    const std::function<absl::StatusOr<std::vector<std::unique_ptr<Device>>>(
        int, uint64_t)>& make_devices = nullptr,
    size_t max_entries = size_t{1} << 19, CoordinatorSettings coordinator = {});

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_GRPC_TASKS_H_
