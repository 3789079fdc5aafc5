// Throughput of an outfeed between tasks, from the sender's thread to the
// callback: items per second, and bytes per second for large items. Both tasks
// are in this process and talk over gRPC by the loopback interface.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "outfeed/remote/remote_outfeed_pair_testing.h"
#include "outfeed/remote/stream_link.h"
#include "tests/cluster/grpc_tasks.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr uint32_t kConsumerId = 1;

OutfeedConnection ConnectionOf(ClusterRuntime& runtime,
                               const Environment& environment) {
  return {.executor = runtime.manager().FindOrCreate(1),
          .device = runtime.devices()[0],
          .group_key = 1,
          .instance_key = 1,
          .deadline = environment.clock->Now() + absl::Seconds(60)};
}

// Sends items of one array on one thread, and waits until all are delivered.
void BM_BetweenTasks(benchmark::State& state) {
  const DefaultEnvironment environment(/*num_workers=*/2);
  const auto tasks = JoinedGrpcTasks(2, environment.get());
  if (!tasks.ok())
    return state.SkipWithError(tasks.status().ToString().c_str());
  RemoteOutfeedPair pair(ConnectionOf(*(*tasks)[0], environment.get()),
                         ConnectionOf(*(*tasks)[1], environment.get()));
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
    // Stops the time at the last callback.
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
