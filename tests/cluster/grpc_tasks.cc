#include "tests/cluster/grpc_tasks.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "framework/base/status_macros.h"
#include "remote/grpc/connection/loopback_listeners.h"
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
  std::vector<LoopbackListeners> listeners;
  for (int task = 0; task < num_tasks; ++task) {
    ASSIGN_OR_RETURN(auto opened, LoopbackListeners::Open());
    cluster.addresses.push_back(opened.address);
    listeners.push_back(std::move(opened));
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
             [&, cluster](uint64_t incarnation) {
               return CreateGrpcTransport(
                   {.cluster = cluster,
                    .incarnation = incarnation,
                    .environment = environment,
                    .listeners = listeners[task].Release()});
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
