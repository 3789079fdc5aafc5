#include "bench/gpu/nccl_bench.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/gpu/bench_buffers.h"
#include "bench/gpu/raw_nccl.h"
#include "bench/gpu/suite_group.h"
#include "tutti/collective.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr int64_t kLargeBytes = int64_t{16} << 20;
constexpr double kMostMicroseconds = 3;
constexpr double kMostPercent = 2;

// So many that what is waited for at the end is little beside them.
constexpr int64_t kFewestCalls = 50;

struct NcclBuffers {
  std::unique_ptr<SuiteGroup> group;
  std::vector<Tensor> inputs, outputs;  // Of the ranks, each on its GPU.
  std::vector<NcclCall> calls;          // The all-reduce among them.
  std::unique_ptr<RawNccl> blocking;
  std::unique_ptr<RawNccl> not_blocking;  // Null where Tutti's blocks, too.
};

absl::StatusOr<NcclBuffers> MakeNcclBuffers(
    const BenchMachine& bench, const std::shared_ptr<NcclRuntime>& nccl,
    const BenchShape& shape) {
  auto group = SuiteGroup::Create(bench.machine, shape.num_members,
                                  /*devices_per_gpu=*/1, nccl);
  if (!group.ok()) return group.status();
  NcclBuffers buffers;
  buffers.group = *std::move(group);
  for (int rank = 0; rank < shape.num_members; ++rank) {
    for (auto* const tensors : {&buffers.inputs, &buffers.outputs}) {
      tensors->push_back(
          buffers.group->Allocate(rank, shape.dtype, shape.num_elements()));
    }
  }
  // The streams of the other communicator come to the memory then.
  const absl::Status status = buffers.group->Finish();
  if (!status.ok()) return status;
  for (int rank = 0; rank < shape.num_members; ++rank) {
    buffers.calls.push_back(
        {.input = buffers.inputs[rank].data(),
         .output = buffers.outputs[rank].mutable_data(),
         .num_elements = static_cast<size_t>(shape.num_elements()),
         .dtype = shape.dtype});
  }
  const auto create = [&](RawNccl::Calls calls) {
    return RawNccl::Create(bench.machine, nccl, shape.num_members, calls);
  };
  auto blocking = create(RawNccl::Calls::kBlock);
  if (!blocking.ok()) return blocking.status();
  buffers.blocking = *std::move(blocking);
  if (!nccl->WhyBlocking().empty()) return buffers;
  auto not_blocking = create(RawNccl::Calls::kDoNotBlock);
  if (!not_blocking.ok()) return not_blocking.status();
  buffers.not_blocking = *std::move(not_blocking);
  return buffers;
}

Contender Alone(std::string name, RawNccl& raw,
                const std::vector<NcclCall>& calls) {
  const auto call = [&raw, &calls] { return raw.Launch(calls); };
  return {.name = std::move(name),
          .enqueue =
              [&raw, repeated = Repeated(call)](int num_calls) {
                absl::Status status = repeated(num_calls);
                status.Update(raw.Finish());
                return status;
              },
          .stream = raw.stream(0),
          .finish = [&raw] { return raw.Finish(); }};
}

// Ours, and NCCL alone. The buffers outlive them.
std::vector<Contender> ContendersOf(NcclBuffers& buffers,
                                    const BenchShape& shape) {
  SuiteGroup& group = *buffers.group;
  const auto request = std::make_shared<CollectiveRequest>(
      group.Request(AllReduce{}, shape.dtype, shape.num_elements()));
  request->impl_details.implementation = "NcclReduce";
  const auto call_ours = [&group, &buffers, request] {
    for (int rank = 0; rank < group.size(); ++rank) {
      group.Call(rank, request, buffers.inputs[rank], &buffers.outputs[rank]);
    }
    return absl::OkStatus();
  };
  // Ours may put calls on streams after they have returned, so a mark on a
  // stream comes behind all of them only when all have ended.
  std::vector<Contender> contenders = {
      {.name = "NcclReduce",
       .enqueue =
           [&group, repeated = Repeated(call_ours)](int num_calls) {
             absl::Status status = repeated(num_calls);
             status.Update(group.Finish());
             return status;
           },
       .stream = group.device(0).compute_stream(),
       .finish = [&group] { return group.Finish(); }},
      Alone("ncclAllReduce", *buffers.blocking, buffers.calls)};
  if (buffers.not_blocking != nullptr) {
    contenders.push_back(
        Alone("not blocking", *buffers.not_blocking, buffers.calls));
  }
  return contenders;
}

int CallsOfNccl(const BenchScale& scale, int64_t num_bytes) {
  const int64_t calls = std::max(kFewestCalls, scale.turn_bytes / num_bytes);
  return static_cast<int>(std::min<int64_t>(scale.replays, calls));
}

absl::StatusOr<BenchResult> RunNccl(const BenchMachine& bench,
                                    const std::shared_ptr<NcclRuntime>& nccl,
                                    const BenchShape& shape) {
  absl::StatusOr<NcclBuffers> buffers = MakeNcclBuffers(bench, nccl, shape);
  if (!buffers.ok()) return buffers.status();
  std::vector<Contender> contenders = ContendersOf(*buffers, shape);
  const absl::Status status =
      TakeTurns(bench, CallsOfNccl(bench.scale, shape.num_bytes), contenders);
  if (!status.ok()) return status;
  const Aim aim = AimOverRaw(shape.num_bytes, contenders);
  return ResultOf(std::move(contenders), aim,
                  2 * shape.num_members * shape.num_bytes);
}

}  // namespace

Aim AimOverRaw(int64_t num_bytes, const std::vector<Contender>& contenders) {
  const bool is_large = num_bytes >= kLargeBytes;
  std::vector<double> found;
  for (size_t i = 0; i < contenders[0].seconds.size(); ++i) {
    double raw = contenders[1].seconds[i];
    for (size_t j = 2; j < contenders.size(); ++j) {
      raw = std::min(raw, contenders[j].seconds[i]);
    }
    const double more = contenders[0].seconds[i] - raw;
    found.push_back(is_large ? 100 * more / raw : 1e6 * more);
  }
  return {.what = "more than ncclAllReduce alone",
          .found = Median(std::move(found)),
          .wanted = is_large ? kMostPercent : kMostMicroseconds,
          .bound = Aim::Bound::kAtMost,
          .unit = is_large ? "%" : "us"};
}

std::vector<BenchCase> NcclBenches(const std::shared_ptr<NcclRuntime>& nccl,
                                   int num_gpus, const BenchScale& scale) {
  std::vector<BenchCase> cases;
  for (const int64_t size : scale.nccl_sizes) {
    const BenchShape shape = {
        .num_members = num_gpus, .dtype = DType::kFloat32, .num_bytes = size};
    cases.push_back({.name = absl::StrCat("NcclReduce, ", ToString(shape)),
                     .run = [nccl, shape](const BenchMachine& bench) {
                       return RunNccl(bench, nccl, shape);
                     }});
  }
  return cases;
}

}  // namespace tutti
