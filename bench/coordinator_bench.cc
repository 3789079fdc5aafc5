// Reductions of named tensors among four ranks in one process, whose messages
// pass through a work queue: measures the cost of requests and decisions, and
// the gain from fusion.

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/processor_seconds.h"
#include "tests/cluster/grpc_tasks.h"
#include "tests/cluster/named_call.h"
#include "tests/cluster/named_tensor_job.h"
#include "tests/doubles/stoppable_environment.h"
#include "tutti/environment.h"
#include "tutti/named_tensors.h"

namespace tutti {
namespace {

constexpr int kNumRanks = 4;

// Each iteration requests all tensors on all ranks and waits for them.
void Reduce(benchmark::State& state, int num_tensors, int64_t num_elements) {
  StoppableEnvironment environment;
  NamedTensorJob job(kNumRanks, environment.get(),
                     {.fusion_bytes = state.range(0)},
                     /*part_elements=*/size_t{64} << 10);
  BlockingCounter joined(kNumRanks);
  for (int rank = 0; rank < kNumRanks; ++rank) {
    job.runtime(rank).Join(
        environment.Now() + absl::Seconds(60), nullptr,
        [&joined](const absl::Status&) { joined.DecrementCount(); });
  }
  joined.Wait();
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  for (int i = 0; i < num_tensors; ++i) {
    names.push_back(absl::StrCat("layer ", i));
  }
  for (int i = 0; i < num_tensors * kNumRanks; ++i) {
    tensors.push_back(
        Filled(DType::kFloat32, TensorShape::Vector(num_elements), 0));
  }
  for (auto _ : state) {
    BlockingCounter left(num_tensors * kNumRanks);
    for (int rank = 0; rank < kNumRanks; ++rank) {
      for (int i = 0; i < num_tensors; ++i) {
        Tensor& tensor = tensors[rank * num_tensors + i];
        job.at(rank).AllReduce(
            {.name = names[i], .input = tensor, .output = &tensor},
            [&left](const absl::Status&) { left.DecrementCount(); });
      }
    }
    left.Wait();
  }
  state.SetItemsProcessed(state.iterations() * num_tensors);
  environment.Stop();
}

void BM_ThousandTensorsOf4KiB(benchmark::State& state) {
  Reduce(state, /*num_tensors=*/1000, /*num_elements=*/1024);
}
BENCHMARK(BM_ThousandTensorsOf4KiB)
    ->ArgName("fusion_bytes")
    ->Arg(0)
    ->Arg(int64_t{64} << 20)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_OneTensorOf4Bytes(benchmark::State& state) {
  Reduce(state, /*num_tensors=*/1, /*num_elements=*/1);
}
BENCHMARK(BM_OneTensorOf4Bytes)
    ->ArgName("fusion_bytes")
    ->Arg(int64_t{64} << 20)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// Cost for four ranks that talk over gRPC while one rank has requested a tensor
// that the others never request: percent of a processor for each rank.
void BM_WaitingOverGrpc(benchmark::State& state) {
  constexpr absl::Duration kWait = absl::Seconds(10);
  const DefaultEnvironment environment(/*num_workers=*/2);
  Clock& clock = *environment.get().clock;
  BlockingCounter ended(1);
  {
    const auto tasks = JoinedGrpcTasks(kNumRanks, environment.get());
    if (!tasks.ok()) {
      return state.SkipWithError(tasks.status().ToString().c_str());
    }
    Tensor tensor = Filled(DType::kFloat32, TensorShape::Vector(1), 0);
    (*tasks)[1]->coordinator().AllReduce(
        {.name = "alone", .input = tensor, .output = &tensor},
        [&](const absl::Status&) { ended.DecrementCount(); });
    for (auto _ : state) {
      const double before = ProcessorSeconds();
      BlockingCounter over(1);
      clock.CallAt(clock.Now() + kWait, [&over] { over.DecrementCount(); });
      over.Wait();
      state.counters["percent_per_rank"] = 100 * (ProcessorSeconds() - before) /
                                           absl::ToDoubleSeconds(kWait) /
                                           kNumRanks;
    }
  }
  ended.Wait();
}
BENCHMARK(BM_WaitingOverGrpc)
    ->Iterations(1)
    ->UseRealTime()
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace tutti
