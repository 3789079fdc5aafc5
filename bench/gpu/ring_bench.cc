#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "bench/gpu/bench_turns.h"
#include "bench/gpu/gpu_group.h"
#include "bench/gpu/gpu_machine.h"
#include "bench/gpu/ring_trace.h"
#include "benchmark/benchmark.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

constexpr double kMostTimesCopy = 1.5;

// Lets the compute streams wait for the ends of all members.
void OrderAfterAll(GpuGroup& group) {
  const GpuStream first = group.device(0).compute_stream();
  for (int rank = 0; rank < group.size(); ++rank) {
    CudaDevice& device = group.device(rank);
    Ok(device.Order(device.collective_stream(), first));
  }
  for (int rank = 1; rank < group.size(); ++rank) {
    Ok(group.device(0).Order(first, group.device(rank).compute_stream()));
  }
}

void RunRing(const BenchMachine& bench, const BenchShape& shape,
             benchmark::State& state) {
  const RingTrace trace =
      TraceRing(bench.machine, shape.num_members, shape.num_elements());
  BenchBuffers buffers(bench.machine, shape);
  std::vector<Contender> contenders = buffers.Copies();
  contenders.insert(contenders.begin(), buffers.Reduction("RingReduce"));
  contenders[0].call = [&buffers, call = contenders[0].call] {
    call();
    OrderAfterAll(buffers.group());
  };
  // In each of N - 1 steps every member reads two chunks and writes one, in as
  // many more it reads one and writes one.
  const int64_t moved = 5 * (shape.num_members - 1) * shape.num_bytes;
  const int64_t copied = 2 * shape.num_members * shape.num_bytes;
  const TurnTimes times =
      TakeTurns(state, bench, bench.scale.Calls(moved), moved, contenders);
  state.counters["launches_before_any_ran"] = trace.num_launches;
  state.counters["host_puts_them_us"] =
      absl::ToDoubleMicroseconds(trace.host_time);
  const double share = static_cast<double>(moved) / static_cast<double>(copied);
  const auto compare = [share](double ring, double copy) {
    return ring / (share * copy);
  };
  Report(state, {.counter = "times_copy",
                 .found = MedianBesideFastest(times, 1, compare),
                 .wanted = kMostTimesCopy});
}

}  // namespace

void RegisterRingBenches(const BenchMachine& bench) {
  for (const int num_members : {2, 4, 8}) {
    const BenchShape shape = {.num_members = num_members,
                              .num_bytes = bench.scale.sizes[0]};
    Register(bench, shape.Name("RingReduce"),
             [bench, shape](benchmark::State& state) {
               RunRing(bench, shape, state);
             });
  }
}

}  // namespace tutti
