#include "gpu/suite/local_bench.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/collective_request.h"
#include "framework/dtype.h"
#include "framework/tensor.h"
#include "gpu/gpu_reduction.h"
#include "gpu/gpu_runtime.h"
#include "gpu/suite/suite_group.h"
#include "gpu/suite/suite_machine.h"

namespace tutti {
namespace {

constexpr double kLeastPercentOfCopy = 85;
constexpr double kMostGraphMicroseconds = 6;
constexpr int64_t kSmallBytes = 4096;
constexpr int kGroupSizes[] = {2, 4, 8};

struct LocalShape {
  int num_members = 2;
  DType dtype = DType::kFloat32;
  int64_t num_bytes = 0;  // Of each buffer.

  int64_t num_elements() const {
    return num_bytes / static_cast<int64_t>(SizeOf(dtype));
  }
};

std::string TextOfBytes(int64_t num_bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  if (num_bytes % kMiB == 0) return absl::StrCat(num_bytes / kMiB, " MiB");
  return absl::StrCat(num_bytes, " B");
}

// The group and its buffers: inputs one after the other, outputs as well.
struct LocalBuffers {
  std::unique_ptr<SuiteGroup> group;
  Tensor all_inputs, all_outputs;
  std::vector<Tensor> inputs, outputs;  // Of the ranks.
};

absl::StatusOr<LocalBuffers> MakeBuffers(SuiteMachine& machine,
                                         const LocalShape& shape) {
  LocalBuffers buffers;
  auto group = SuiteGroup::Create(machine, /*num_gpus=*/1, shape.num_members);
  if (!group.ok()) return group.status();
  buffers.group = *std::move(group);
  const int64_t length = shape.num_elements();
  for (Tensor* const all : {&buffers.all_inputs, &buffers.all_outputs}) {
    *all = buffers.group->Allocate(0, shape.dtype, shape.num_members * length);
  }
  // Their memory is the first member's: the others' streams come to it then.
  const absl::Status status = buffers.group->Finish();
  if (!status.ok()) return status;
  for (int rank = 0; rank < shape.num_members; ++rank) {
    for (auto [all, part] :
         {std::pair(&buffers.all_inputs, &buffers.inputs),
          std::pair(&buffers.all_outputs, &buffers.outputs)}) {
      absl::StatusOr<Tensor> slice =
          all->Slice(rank * length, (rank + 1) * length);
      if (!slice.ok()) return slice.status();
      part->push_back(*std::move(slice));
    }
  }
  return buffers;
}

GpuReduction ReductionOf(LocalBuffers& buffers, const LocalShape& shape) {
  GpuReduction reduction = {
      .dtype = shape.dtype,
      .num_elements = static_cast<size_t>(shape.num_elements())};
  for (int rank = 0; rank < shape.num_members; ++rank) {
    reduction.inputs.push_back(buffers.inputs[rank].data());
    reduction.outputs.push_back(buffers.outputs[rank].mutable_data());
  }
  return reduction;
}

// `call` so many times, until it fails.
template <typename Call>
auto Repeated(Call call) {
  return [call](int num_calls) {
    absl::Status status;
    for (int i = 0; status.ok() && i < num_calls; ++i) status = call();
    return status;
  };
}

// All on the first member's compute stream, for which nothing else waits.
std::vector<Contender> ContendersOf(LocalBuffers& buffers,
                                    const LocalShape& shape) {
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
  const size_t size = buffers.all_inputs.size_bytes();
  const std::byte* const from = buffers.all_inputs.data();
  std::byte* const to = buffers.all_outputs.mutable_data();
  contenders.push_back(
      {.name = "copy kernel",
       .enqueue = Repeated([&runtime, stream, from, to, size] {
         return runtime.LaunchCopy(
             {.input = from, .outputs = {to}, .num_bytes = size}, stream);
       }),
       .stream = stream});
  contenders.push_back({.name = "cudaMemcpyAsync",
                        .enqueue = Repeated([&runtime, stream, from, to, size] {
                          return runtime.CopyAsync(to, from, size, stream);
                        }),
                        .stream = stream});
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
                                     const LocalShape& shape) {
  absl::StatusOr<LocalBuffers> buffers = MakeBuffers(bench.machine, shape);
  if (!buffers.ok()) return buffers.status();
  std::vector<Contender> contenders = ContendersOf(*buffers, shape);
  const int64_t moved = 2 * shape.num_members * shape.num_bytes;
  const auto num_calls =
      std::clamp<int64_t>(bench.scale.turn_bytes / moved, 4, 50);
  const absl::Status status =
      TakeTurns(bench, static_cast<int>(num_calls), contenders);
  if (!status.ok()) return status;
  const Aim aim = {.what = "of the speed of a copy",
                   .found = ShareOfCopy(contenders),
                   .wanted = kLeastPercentOfCopy,
                   .bound = Aim::Bound::kAtLeast,
                   .unit = "%"};
  // What they enqueue belongs to the buffers, which end here.
  for (Contender& contender : contenders) {
    contender.enqueue = nullptr;
    contender.finish = nullptr;
  }
  return BenchResult{
      .contenders = std::move(contenders), .aim = aim, .num_bytes = moved};
}

// Launches and times the small reduction of buffers in `memory`.
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
  std::vector<Contender> contenders = {
      {.name = "graph",
       .enqueue =
           Repeated([&graph, stream] { return (*graph)->Launch(stream); }),
       .stream = stream},
      {.name = "kernel", .enqueue = Repeated(launch), .stream = stream}};
  const absl::Status status = TakeTurns(bench, bench.scale.replays, contenders);
  if (!status.ok()) return status;
  for (Contender& contender : contenders) contender.enqueue = nullptr;
  const Aim aim = {.what = "for each replay",
                   .found = 1e6 * Median(contenders[0].seconds),
                   .wanted = kMostGraphMicroseconds,
                   .bound = Aim::Bound::kAtMost,
                   .unit = "us"};
  return BenchResult{
      .contenders = std::move(contenders), .aim = aim, .num_bytes = 0};
}

absl::StatusOr<BenchResult> RunSmall(const BenchMachine& bench,
                                     int num_members) {
  GpuRuntime& runtime = bench.machine.runtime();
  const absl::StatusOr<OwnedGpuStream> stream = NewStream(runtime, 0);
  if (!stream.ok()) return stream.status();
  const absl::StatusOr<void*> memory = runtime.AllocateAsync(
      static_cast<size_t>(2 * num_members * kSmallBytes), stream->get());
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
        const LocalShape shape = {
            .num_members = num_members, .dtype = dtype, .num_bytes = size};
        cases.push_back(
            {.name = absl::StrCat("GpuLocalReduce, ", num_members, " x ",
                                  TextOfBytes(size), " ", Name(dtype)),
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
