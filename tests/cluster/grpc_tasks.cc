#include "tests/cluster/grpc_tasks.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "remote/grpc/connection/reserved_ports.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/grpc_transport.h"

namespace tutti {

absl::StatusOr<std::vector<std::unique_ptr<ClusterRuntime>>> JoinedGrpcTasks(
    int num_tasks, const Environment& environment,
    const std::function<absl::StatusOr<std::vector<std::unique_ptr<Device>>>(
        int, uint64_t)>& make_devices,
    size_t max_entries, CoordinatorSettings coordinator,
    std::shared_ptr<const SelectionRules> rules) {
  ClusterSpec cluster;
  const auto ports = ReservedPorts::Create(num_tasks);  // Until tasks listen.
  if (!ports.ok()) return ports.status();
  for (const int port : ports->get()) {
    cluster.addresses.push_back(absl::StrCat("127.0.0.1:", port));
  }
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes;
  for (int task = 0; task < num_tasks; ++task) {
    cluster.this_task = task;
    ClusterRuntime::DeviceFactory factory;
    if (make_devices != nullptr) factory = std::bind_front(make_devices, task);
    auto runtime = ClusterRuntime::Create(
        {.cluster = cluster,
         .environment = environment,
         .make_devices = std::move(factory),
         .make_transport =
             [=](uint64_t incarnation) {
               return CreateGrpcTransport({.cluster = cluster,
                                           .incarnation = incarnation,
                                           .environment = environment});
             },
         .rules = rules,
         .coordinator = coordinator,
         .max_entries = max_entries});
    if (!runtime.ok()) return runtime.status();
    runtimes.push_back(*std::move(runtime));
  }
  std::vector<absl::Status> statuses(runtimes.size());
  BlockingCounter joined(num_tasks);
  for (size_t task = 0; task < runtimes.size(); ++task) {
    runtimes[task]->Join(environment.clock->Now() + absl::Seconds(60),
                         /*progress=*/nullptr,
                         [&statuses, &joined, task](absl::Status status) {
                           statuses[task] = std::move(status);
                           joined.DecrementCount();
                         });
  }
  joined.Wait();
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return runtimes;
}

}  // namespace tutti
