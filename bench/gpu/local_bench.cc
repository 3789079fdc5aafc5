#include "bench/gpu/local_bench.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/bench_buffers.h"
#include "bench/gpu/gpu_image.h"
#include "bench/gpu/gpu_timing.h"
#include "bench/gpu/suite_group.h"
#include "bench/gpu/suite_machine.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/passes/gpu_local_reference.h"
#include "tutti/collective.h"
#include "tutti/gpu_devices.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr double kLeastPercentOfCopy = 85;
constexpr double kMostGraphMicroseconds = 6;
constexpr int64_t kSmallBytes = 4096;
constexpr int kHoldCopies = 16;
constexpr int kGroupSizes[] = {2, 4, 8};

GpuReduction ReductionOf(BenchBuffers& buffers, const BenchShape& shape) {
  GpuReduction reduction = {
      .dtype = shape.dtype,
      .num_elements = static_cast<size_t>(shape.num_elements())};
  for (int rank = 0; rank < shape.num_members; ++rank) {
    reduction.inputs.push_back(buffers.inputs[rank].data());
    reduction.outputs.push_back(buffers.outputs[rank].mutable_data());
  }
  return reduction;
}

// All on the first member's compute stream, for which nothing else waits.
std::vector<Contender> ContendersOf(BenchBuffers& buffers,
                                    const BenchShape& shape) {
  SuiteGroup& group = *buffers.group;
  GpuRuntime& runtime = group.machine().runtime();
  const GpuStream stream = group.device(0).compute_stream();
  const auto request = std::make_shared<CollectiveRequest>(
      group.Request(AllReduce{}, shape.dtype, shape.num_elements()));
  request->impl_details.implementation = "GpuLocalReduce";
  std::vector<Contender> contenders;
  contenders.push_back({.name = "GpuLocalReduce",
                        .enqueue = Repeated([&group, &buffers, request] {
                          for (int rank = 0; rank < group.size(); ++rank) {
                            group.Call(rank, request, buffers.inputs[rank],
                                       &buffers.outputs[rank]);
                          }
                          return absl::OkStatus();
                        }),
                        .stream = stream,
                        .finish = [&group] { return group.Finish(); }});
  contenders.push_back(
      {.name = "kernel",
       .enqueue = Repeated(
           [&runtime, stream, reduction = ReductionOf(buffers, shape)] {
             return runtime.LaunchReduce(reduction, stream);
           }),
       .stream = stream});
  for (Contender& copy : CopyContenders(buffers)) {
    contenders.push_back(std::move(copy));
  }
  return contenders;
}

// In per cent, the median over the rounds.
double ShareOfCopy(const std::vector<Contender>& contenders) {
  std::vector<double> shares;
  for (size_t i = 0; i < contenders[0].seconds.size(); ++i) {
    const double copy =
        std::min(contenders[2].seconds[i], contenders[3].seconds[i]);
    shares.push_back(100 * copy / contenders[0].seconds[i]);
  }
  return Median(std::move(shares));
}

absl::StatusOr<BenchResult> RunLocal(const BenchMachine& bench,
                                     const BenchShape& shape) {
  absl::StatusOr<BenchBuffers> buffers = MakeBuffers(bench.machine, shape);
  if (!buffers.ok()) return buffers.status();
  std::vector<Contender> contenders = ContendersOf(*buffers, shape);
  const int64_t moved = 2 * shape.num_members * shape.num_bytes;
  const absl::Status status =
      TakeTurns(bench, CallsOf(bench.scale, moved), contenders);
  if (!status.ok()) return status;
  const Aim aim = {.what = "of the speed of a copy",
                   .found = ShareOfCopy(contenders),
                   .wanted = kLeastPercentOfCopy,
                   .bound = Aim::Bound::kAtLeast,
                   .unit = "%"};
  return ResultOf(std::move(contenders), aim, moved);
}

int64_t SmallBuffers(int num_members) { return 2 * num_members * kSmallBytes; }

// Replays the graph of the small reduction once, of random inputs into outputs
// all of whose bytes are wrong, and compares all buffers. Errors: INTERNAL with
// the first byte that differs.
absl::Status CheckReplay(const BenchMachine& bench, GpuGraph& graph,
                         int num_members, std::byte* memory, GpuStream stream) {
  std::vector<Bytes> inputs;
  for (int i = 0; i < num_members; ++i) {
    inputs.push_back(RandomElements(DType::kFloat32,
                                    kSmallBytes / SizeOf(DType::kFloat32), i));
  }
  const Bytes sum =
      ReferenceReduceInPasses({ReductionKind::kSum, DType::kFloat32}, inputs,
                              inputs.size(), /*divisor=*/1);
  std::vector<Bytes> wanted = inputs;
  wanted.resize(inputs.size() * 2, sum);
  const auto size = static_cast<size_t>(SmallBuffers(num_members));
  bench.machine.host_area().Clear();
  const absl::StatusOr<uint8_t*> host = bench.machine.host_area().Take(size);
  if (!host.ok()) return host.status();
  for (size_t i = 0; i < wanted.size(); ++i) {
    uint8_t* const begin = *host + i * kSmallBytes;
    std::copy(wanted[i].begin(), wanted[i].end(), begin);
    if (i < inputs.size()) continue;
    std::transform(begin, begin + kSmallBytes, begin,
                   [](uint8_t byte) { return static_cast<uint8_t>(~byte); });
  }
  GpuRuntime& runtime = bench.machine.runtime();
  absl::Status status = runtime.CopyAsync(memory, *host, size, stream);
  if (status.ok()) status = graph.Launch(stream);
  if (status.ok()) status = runtime.CopyAsync(*host, memory, size, stream);
  // Also after an error, as the memory of the host is in use.
  status.Update(bench.machine.WaitFor(stream));
  for (size_t i = 0; status.ok() && i < wanted.size(); ++i) {
    status = CompareBytes(absl::StrCat("buffer ", i, " after a replay"),
                          wanted[i], *host + i * kSmallBytes);
  }
  return status;
}

// Launches and times the small reduction of buffers in `memory`, behind which
// lies what is copied before.
absl::StatusOr<BenchResult> TimeSmall(const BenchMachine& bench,
                                      int num_members, std::byte* memory,
                                      GpuStream stream) {
  GpuRuntime& runtime = bench.machine.runtime();
  GpuReduction reduction = {.num_elements = kSmallBytes / sizeof(float)};
  for (int i = 0; i < num_members; ++i) {
    reduction.inputs.push_back(memory + i * kSmallBytes);
    reduction.outputs.push_back(memory + (num_members + i) * kSmallBytes);
  }
  const auto launch = [&] { return runtime.LaunchReduce(reduction, stream); };
  const auto graph = bench.timing.Capture(stream, launch);
  if (!graph.ok()) return graph.status();
  absl::Status status =
      CheckReplay(bench, **graph, num_members, memory, stream);
  if (!status.ok()) return status;
  const auto copy = [&runtime, stream,
                     from = memory + SmallBuffers(num_members),
                     size = static_cast<size_t>(bench.scale.hold_bytes)] {
    return runtime.CopyAsync(from + size, from, size, stream);
  };
  const auto hold = [copies = Repeated(copy)] { return copies(kHoldCopies); };
  std::vector<Contender> contenders = {{.name = "graph",
                                        .enqueue = Repeated([&graph, stream] {
                                          return (*graph)->Launch(stream);
                                        }),
                                        .stream = stream,
                                        .hold = hold},
                                       {.name = "kernel",
                                        .enqueue = Repeated(launch),
                                        .stream = stream,
                                        .hold = hold}};
  status = TakeTurns(bench, bench.scale.replays, contenders);
  if (!status.ok()) return status;
  const Aim aim = {.what = "for each replay",
                   .found = 1e6 * Median(contenders[0].seconds),
                   .wanted = kMostGraphMicroseconds,
                   .bound = Aim::Bound::kAtMost,
                   .unit = "us"};
  return ResultOf(std::move(contenders), aim, /*num_bytes=*/0);
}

absl::StatusOr<BenchResult> RunSmall(const BenchMachine& bench,
                                     int num_members) {
  GpuRuntime& runtime = bench.machine.runtime();
  const absl::StatusOr<OwnedGpuStream> stream = NewStream(runtime, 0);
  if (!stream.ok()) return stream.status();
  const absl::StatusOr<void*> memory =
      runtime.AllocateAsync(static_cast<size_t>(SmallBuffers(num_members) +
                                                2 * bench.scale.hold_bytes),
                            stream->get());
  if (!memory.ok()) return memory.status();
  absl::StatusOr<BenchResult> result = TimeSmall(
      bench, num_members, static_cast<std::byte*>(*memory), stream->get());
  absl::Status status = runtime.FreeAsync(*memory, stream->get());
  status.Update(bench.machine.WaitFor(stream->get()));
  if (result.ok() && !status.ok()) return status;
  return result;
}

}  // namespace

std::vector<BenchCase> LocalReduceBenches(const BenchScale& scale) {
  std::vector<BenchCase> cases;
  for (const int64_t size : scale.sizes) {
    for (const int num_members : kGroupSizes) {
      for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
        const BenchShape shape = {
            .num_members = num_members, .dtype = dtype, .num_bytes = size};
        cases.push_back(
            {.name = absl::StrCat("GpuLocalReduce, ", ToString(shape)),
             .run = [shape](const BenchMachine& bench) {
               return RunLocal(bench, shape);
             }});
      }
    }
  }
  return cases;
}

std::vector<BenchCase> SmallReduceBenches() {
  std::vector<BenchCase> cases;
  for (const int num_members : kGroupSizes) {
    cases.push_back({.name = absl::StrCat("CUDA graph of a reduction, ",
                                          num_members, " x 4 KiB float32"),
                     .run = [num_members](const BenchMachine& bench) {
                       return RunSmall(bench, num_members);
                     }});
  }
  return cases;
}

}  // namespace tutti
