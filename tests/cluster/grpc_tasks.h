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
#include "tutti/selection.h"

namespace tutti {

// Makes the tasks of a cluster, all in this process, each with one CPU device,
// or with the devices of `make_devices(task, incarnation)`. The tasks talk over
// gRPC by the loopback interface and have joined. Blocks. The parts of
// `environment` outlive them.
absl::StatusOr<std::vector<std::unique_ptr<ClusterRuntime>>> JoinedGrpcTasks(
    int num_tasks, const Environment& environment,
    const std::function<absl::StatusOr<std::vector<std::unique_ptr<Device>>>(
        int, uint64_t)>& make_devices = nullptr,
    size_t max_entries = size_t{1} << 19, CoordinatorSettings coordinator = {},
    std::shared_ptr<const SelectionRules> rules = nullptr);

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_GRPC_TASKS_H_
