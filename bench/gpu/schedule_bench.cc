#include "bench/gpu/schedule_bench.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/bench_buffers.h"
#include "bench/gpu/ring_trace.h"
#include "bench/gpu/suite_group.h"
#include "tutti/collective.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr double kMostTimesFloor = 1.5;

// The compute streams wait for the ends of all members, as one who uses the
// results does by `done`.
absl::Status OrderAfterAll(SuiteGroup& group) {
  const GpuStream first = group.device(0).compute_stream();
  absl::Status status;
  for (int rank = 0; rank < group.size(); ++rank) {
    CudaDevice& device = group.device(rank);
    status.Update(device.Order(device.collective_stream(), first));
  }
  for (int rank = 1; rank < group.size(); ++rank) {
    status.Update(
        group.device(0).Order(first, group.device(rank).compute_stream()));
  }
  return status;
}

Contender RingContender(BenchBuffers& buffers, const BenchShape& shape) {
  SuiteGroup& group = *buffers.group;
  const auto request = std::make_shared<CollectiveRequest>(
      group.Request(AllReduce{}, shape.dtype, shape.num_elements()));
  request->impl_details.implementation = "RingReduce";
  return {.name = "RingReduce",
          .enqueue = Repeated([&group, &buffers, request] {
            for (int rank = 0; rank < group.size(); ++rank) {
              group.Call(rank, request, buffers.inputs[rank],
                         &buffers.outputs[rank]);
            }
            return OrderAfterAll(group);
          }),
          .stream = group.device(0).compute_stream(),
          .finish = [&group] { return group.Finish(); }};
}

absl::StatusOr<BenchResult> RunRing(const BenchMachine& bench,
                                    const BenchShape& shape) {
  absl::StatusOr<RingTrace> trace =
      TraceRing(bench.machine, {.num_members = shape.num_members,
                                .num_elements = shape.num_elements(),
                                .timing = &bench.timing});
  if (!trace.ok()) return trace.status();
  absl::StatusOr<BenchBuffers> buffers = MakeBuffers(bench.machine, shape);
  if (!buffers.ok()) return buffers.status();
  std::vector<Contender> contenders;
  contenders.push_back(RingContender(*buffers, shape));
  for (Contender& copy : CopyContenders(*buffers)) {
    contenders.push_back(std::move(copy));
  }
  const int64_t moved = 5 * (shape.num_members - 1) * shape.num_bytes;
  const int64_t copied = 2 * shape.num_members * shape.num_bytes;
  const absl::Status status =
      TakeTurns(bench, CallsOf(bench.scale, moved), contenders);
  if (!status.ok()) return status;
  const double share = static_cast<double>(moved) / static_cast<double>(copied);
  std::vector<double> times;
  for (size_t i = 0; i < contenders[0].seconds.size(); ++i) {
    const double floor =
        share * std::min(contenders[1].seconds[i], contenders[2].seconds[i]);
    times.push_back(contenders[0].seconds[i] / floor);
  }
  const Aim aim = {.what = "the time of copying what it reads and writes",
                   .found = Median(std::move(times)),
                   .wanted = kMostTimesFloor,
                   .bound = Aim::Bound::kAtMost,
                   .unit = "times"};
  // Contenders move different numbers of bytes.
  BenchResult result = ResultOf(std::move(contenders), aim, /*num_bytes=*/0);
  result.trace = *std::move(trace);
  return result;
}

}  // namespace

std::vector<BenchCase> ScheduleBenches(const BenchScale& scale) {
  std::vector<BenchCase> cases;
  for (const int num_members : {2, 4, 8}) {
    const BenchShape shape = {.num_members = num_members,
                              .dtype = DType::kFloat32,
                              .num_bytes = scale.sizes[0]};
    cases.push_back({.name = absl::StrCat("RingReduce, ", ToString(shape)),
                     .run = [shape](const BenchMachine& bench) {
                       return RunRing(bench, shape);
                     }});
  }
  return cases;
}

}  // namespace tutti
