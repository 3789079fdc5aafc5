// What an outfeed carries from one task to another: items per second, and bytes
// per second of large ones, from the sender's thread to the callback. Both
// tasks are in this process and talk over gRPC by the loopback interface.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "framework/blocking_counter.h"
#include "framework/cluster_spec.h"
#include "framework/default_environment.h"
#include "framework/device.h"
#include "framework/dtype.h"
#include "framework/environment.h"
#include "framework/tensor.h"
#include "framework/tensor_shape.h"
#include "outfeed/outfeed_registry.h"
#include "outfeed/outfeed_sender.h"
#include "outfeed/remote_outfeed_pair.h"
#include "outfeed/stream_link.h"
#include "remote/grpc/free_port.h"
#include "remote/grpc/grpc_transport.h"
#include "remote/transport.h"
#include "runtime/cluster_runtime.h"

namespace tutti {
namespace {

constexpr uint32_t kConsumerId = 1;

// Two tasks, which have joined.
class Tasks {
 public:
  explicit Tasks(const Environment& environment) : environment_(environment) {
    ClusterSpec cluster;
    for (int task = 0; task < 2; ++task) {
      cluster.addresses.push_back(absl::StrCat("127.0.0.1:", FreePort()));
    }
    BlockingCounter joined(2);
    for (int task = 0; task < 2; ++task) {
      cluster.this_task = task;
      runtimes_.push_back(*ClusterRuntime::Create(
          {.cluster = cluster,
           .environment = environment,
           .make_transport = [=](uint64_t incarnation)
               -> absl::StatusOr<std::shared_ptr<Transport>> {
             return CreateGrpcTransport({.cluster = cluster,
                                         .incarnation = incarnation,
                                         .environment = environment});
           }}));
      runtimes_.back()->Join(
          environment.clock->Now() + absl::Seconds(60), nullptr,
          [&joined](const absl::Status&) { joined.DecrementCount(); });
    }
    joined.Wait();
  }

  OutfeedConnection Connection(size_t task) {
    return {.executor = runtimes_[task]->manager().FindOrCreate(1),
            .device = runtimes_[task]->devices()[0],
            .group_key = 1,
            .instance_key = 1,
            .deadline = environment_.clock->Now() + absl::Seconds(60)};
  }

 private:
  const Environment environment_;
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_;
};

// Items of one array, all sent by one thread and delivered.
void BM_BetweenTasks(benchmark::State& state) {
  const DefaultEnvironment environment(/*num_workers=*/2);
  Tasks tasks(environment.get());
  RemoteOutfeedPair pair(tasks.Connection(0), tasks.Connection(1));
  const TensorShape shape = TensorShape::Vector(state.range(0));
  absl::Status status =
      pair.registry().Register(kConsumerId, {{DType::kUint8, shape}});
  const auto num_items = static_cast<int64_t>(state.max_iterations);
  int64_t num_left = num_items;
  BlockingCounter delivered(1);
  const auto on_item = [&](Device&, uint32_t, absl::Span<Tensor>) {
    if (--num_left == 0) delivered.DecrementCount();
    return absl::OkStatus();
  };
  if (status.ok()) status = pair.Start(on_item, int64_t{256} << 20);
  if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  const OutfeedSender sender = pair.sender();
  const Tensor array = *Tensor::Allocate(DType::kUint8, shape);
  int64_t num_sent = 0;
  for (auto _ : state) {
    status = sender.SendAndWait(kConsumerId, {array});
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
    // The time ends with the last callback.
    if (++num_sent == num_items) delivered.Wait();
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_BetweenTasks)
    ->ArgName("item_bytes")
    ->Arg(4)
    ->Arg(1 << 10)
    ->Arg(64 << 10)
    ->Arg(1 << 20)
    ->Arg(4 << 20)
    ->UseRealTime();

}  // namespace
}  // namespace tutti
