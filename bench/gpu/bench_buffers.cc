#include "bench/gpu/bench_buffers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace {

std::string TextOfBytes(int64_t num_bytes) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  if (num_bytes % kMiB == 0) return absl::StrCat(num_bytes / kMiB, " MiB");
  return absl::StrCat(num_bytes, " B");
}

}  // namespace

std::string ToString(const BenchShape& shape) {
  return absl::StrCat(shape.num_members, " x ", TextOfBytes(shape.num_bytes),
                      " ", Name(shape.dtype));
}

absl::StatusOr<BenchBuffers> MakeBuffers(SuiteMachine& machine,
                                         const BenchShape& shape) {
  BenchBuffers buffers;
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

std::vector<Contender> CopyContenders(BenchBuffers& buffers) {
  GpuRuntime& runtime = buffers.group->machine().runtime();
  const GpuStream stream = buffers.group->device(0).compute_stream();
  std::vector<Contender> contenders;
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

int CallsOf(const BenchScale& scale, int64_t num_bytes) {
  return static_cast<int>(
      std::clamp<int64_t>(scale.turn_bytes / num_bytes, 4, 50));
}

BenchResult ResultOf(std::vector<Contender> contenders, Aim aim,
                     int64_t num_bytes) {
  for (Contender& contender : contenders) {
    contender.enqueue = nullptr;
    contender.hold = nullptr;
    contender.finish = nullptr;
  }
  return {.contenders = std::move(contenders),
          .aim = std::move(aim),
          .num_bytes = num_bytes};
}

}  // namespace tutti
