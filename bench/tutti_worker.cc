// Tutti over gRPC with its default settings: a process that bench/processes.py
// compares with others.
//
// usage: tutti_worker memory|unix|tcp ADDRESS,... TASK
//
// memory: uses a Unix socket, and reads large payloads from the memory of the
// other process on the same host; unix: uses the socket alone; tcp: as between
// hosts.

#include <grpcpp/version_info.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "bench/run_task.h"
#include "bench/serve_calls.h"
#include "tools/base/version.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/tutti.h"

namespace tutti {
namespace {

class Caller {
 public:
  explicit Caller(ClusterRuntime* runtime) : runtime_(runtime) {}

  std::string Call(const TimedCall& call) {
    const auto& request = RequestOf(call);
    const bool has_input = !std::holds_alternative<Broadcast>(request->op) ||
                           runtime_->cluster().this_task == 0;
    auto output = Tensor::Wrap(request->dtype, request->shape, call.output);
    if (!output.ok()) return output.status().ToString();
    Tensor input;
    if (has_input) {
      input = *Tensor::Wrap(request->dtype, request->shape,
                            const_cast<float*>(call.input));
    }
    const absl::Status status = Await([&](StatusCallback done) {
      Chain({.device = runtime_->devices()[0],
             .request = request,
             .input = std::move(input),
             .output = &*output},
            call.collective == "chained" ? kChain : 1, std::move(done));
    });
    return status.ok() ? "" : status.ToString();
  }

 private:
  using Request = std::shared_ptr<const CollectiveRequest>;

  const Request& RequestOf(const TimedCall& call) {
    Request& known = requests_[{call.collective, call.num_elements}];
    if (known != nullptr) return known;
    CollectiveRequest request;
    request.group_size = runtime_->cluster().num_tasks();
    request.rank = runtime_->cluster().this_task;
    request.instance_key = static_cast<InstanceKey>(requests_.size());
    request.op = AllReduce();
    if (call.collective == "broadcast") {
      request.op = Broadcast{.is_source = request.rank == 0};
    }
    request.shape =
        TensorShape::Vector(static_cast<int64_t>(call.num_elements));
    known = std::make_shared<const CollectiveRequest>(std::move(request));
    return known;
  }

  // Runs `count` all-reduces one after the other, all but the first in place.
  void Chain(CollectiveArgs args, int count, StatusCallback done) {
    CollectiveArgs next = args;
    next.input = *args.output;
    executor_->ExecuteAsync(
        std::move(args), [this, next = std::move(next), count,
                          done = std::move(done)](absl::Status status) mutable {
          if (!status.ok() || count == 1) return std::move(done)(status);
          Chain(std::move(next), count - 1, std::move(done));
        });
  }

  ClusterRuntime* const runtime_;
  const std::shared_ptr<CollectiveExecutor> executor_ =
      runtime_->manager().FindOrCreate(/*step_id=*/1);
  std::map<std::pair<std::string, size_t>, Request> requests_;
};

absl::Status Serve(ClusterRuntime* runtime) {
  const ClusterSpec& cluster = runtime->cluster();
  std::cout << "READY Tutti " << kVersion << ", gRPC "
            << GRPC_CPP_VERSION_STRING << std::endl;
  Caller caller(runtime);
  ServeCalls(cluster.this_task, cluster.num_tasks(),
             [&](const TimedCall& call) { return caller.Call(call); });
  return absl::OkStatus();
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: tutti_worker memory|unix|tcp ADDRESS,... TASK\n";
    return 2;
  }
  const std::string path = argv[1];
  const tutti::DefaultEnvironment environment;
  const absl::Status status =
      tutti::RunTask({.cluster = {.addresses = absl::StrSplit(argv[2], ','),
                                  .this_task = std::atoi(argv[3])},
                      .environment = environment.get(),
                      .same_host_socket = path != "tcp",
                      .same_host_memory = path == "memory"},
                     /*devices_per_task=*/1, tutti::Serve);
  if (!status.ok()) std::cerr << "tutti_worker: " << status << '\n';
  return status.ok() ? 0 : 1;
}
