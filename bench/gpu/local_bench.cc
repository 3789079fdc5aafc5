#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/bench_turns.h"
#include "bench/gpu/gpu_image.h"
#include "bench/gpu/gpu_machine.h"
#include "benchmark/benchmark.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/testing/gpu_reference.h"
#include "tutti/gpu_devices.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr double kLeastPercentOfCopy = 85;
constexpr double kMostGraphMicroseconds = 6;
constexpr int64_t kSmallElements = 1024;
constexpr int kHoldCopies = 16;
constexpr int kGroupSizes[] = {2, 4, 8};

void RunLarge(const BenchMachine& bench, const BenchShape& shape,
              benchmark::State& state) {
  BenchBuffers buffers(bench.machine, shape);
  GpuReduction reduction = {
      .dtype = shape.dtype,
      .num_elements = static_cast<size_t>(shape.num_elements())};
  for (int rank = 0; rank < shape.num_members; ++rank) {
    reduction.inputs.push_back(buffers.input(rank).data());
    reduction.outputs.push_back(buffers.output(rank).mutable_data());
  }
  std::vector<Contender> contenders = buffers.Copies();
  const GpuStream stream = contenders[0].stream;
  const auto launch = [&] {
    Ok(bench.machine.runtime.LaunchReduce(reduction, stream));
  };
  contenders.insert(contenders.begin(),
                    {buffers.Reduction("GpuLocalReduce"),
                     {.name = "kernel", .call = launch, .stream = stream}});
  const int64_t moved = 2 * shape.num_members * shape.num_bytes;
  const TurnTimes times =
      TakeTurns(state, bench, bench.scale.Calls(moved), moved, contenders);
  const auto compare = [](double ours, double copy) {
    return 100 * copy / ours;
  };
  Report(state, {.counter = "of_copy_percent",
                 .found = MedianBesideFastest(times, 2, compare),
                 .wanted = kLeastPercentOfCopy,
                 .is_least = true});
}

// Small reduction in an image, which finds out whether it is right.
struct SmallReduction {
  explicit SmallReduction(int num_members) {
    std::vector<Bytes> values;
    for (int i = 0; i < num_members; ++i) {
      values.push_back(RandomElements(DType::kFloat32, kSmallElements, i));
      inputs.push_back(image.Add(absl::StrCat("input ", i), values[i], 0));
    }
    const Bytes sum =
        ReferenceReduceInPasses({ReductionKind::kSum, DType::kFloat32}, values,
                                values.size(), /*divisor=*/1);
    for (int i = 0; i < num_members; ++i) {
      outputs.push_back(
          image.Add(absl::StrCat("output ", i), Bytes(sum.size(), 0x5A), 0));
      image.Expect(outputs[i], sum);
    }
  }

  GpuReduction At(void* memory) const {
    GpuReduction reduction = {.num_elements = kSmallElements};
    for (const int region : inputs) {
      reduction.inputs.push_back(image.Place(region, memory));
    }
    for (const int region : outputs) {
      reduction.outputs.push_back(image.Place(region, memory));
    }
    return reduction;
  }

  GpuImage image;
  std::vector<int> inputs, outputs;  // Regions of the image.
};

void RunSmall(const BenchMachine& bench, int num_members,
              benchmark::State& state) {
  GpuMachine& machine = bench.machine;
  GpuRuntime& runtime = machine.runtime;
  const SmallReduction small(num_members);
  std::unique_ptr<GpuGraph> graph;  // Lives until its stream is past it.
  small.image.Run(machine, /*gpu=*/0, [&](void* memory, GpuStream stream) {
    const GpuReduction reduction = small.At(memory);
    const auto launch = [&] { return runtime.LaunchReduce(reduction, stream); };
    graph = machine.timing.Capture(stream, launch).value();
    Ok(graph->Launch(stream));
  });
  small.image.Run(machine, /*gpu=*/0, [&](void* memory, GpuStream stream) {
    const GpuReduction reduction = small.At(memory);
    const auto launch = [&] { return runtime.LaunchReduce(reduction, stream); };
    graph = machine.timing.Capture(stream, launch).value();
    const auto size = static_cast<size_t>(bench.scale.hold_bytes);
    auto* const from = static_cast<std::byte*>(
        runtime.AllocateAsync(2 * size, stream).value());
    const auto hold = [&] {
      for (int i = 0; i < kHoldCopies; ++i) {
        Ok(runtime.CopyAsync(from + size, from, size, stream));
      }
    };
    const TurnTimes times =
        TakeTurns(state, bench, bench.scale.replays, /*num_bytes=*/0,
                  {{.name = "graph",
                    .call = [&] { Ok(graph->Launch(stream)); },
                    .stream = stream,
                    .hold = hold},
                   {.name = "kernel",
                    .call = [&] { Ok(launch()); },
                    .stream = stream,
                    .hold = hold}});
    Ok(runtime.FreeAsync(from, stream));
    Report(state, {.counter = "replay_us",
                   .found = 1e6 * Median(times[0]),
                   .wanted = kMostGraphMicroseconds});
  });
}

}  // namespace

void RegisterLocalBenches(const BenchMachine& bench) {
  for (const int64_t size : bench.scale.sizes) {
    for (const int num_members : kGroupSizes) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const BenchShape shape = {
            .num_members = num_members, .dtype = dtype, .num_bytes = size};
        Register(bench, shape.Name("GpuLocalReduce"),
                 [bench, shape](benchmark::State& state) {
                   RunLarge(bench, shape, state);
                 });
      }
    }
  }
  for (const int num_members : kGroupSizes) {
    const BenchShape shape = {.num_members = num_members,
                              .num_bytes = kSmallElements * 4};
    Register(bench, shape.Name("CudaGraphOfAReduction"),
             [bench, num_members](benchmark::State& state) {
               RunSmall(bench, num_members, state);
             });
  }
}

}  // namespace tutti
