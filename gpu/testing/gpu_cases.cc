#include "gpu/testing/gpu_cases.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "framework/base/status_macros.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/testing/fake_gpu_memory.h"
#include "tutti/collective.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {

using conformance::Case;
using conformance::ImplementationUnderTest;

std::vector<ImplementationUnderTest> Schedules() {
  std::vector<ImplementationUnderTest> schedules;
  for (const auto& [name, factory] : CollectiveRegistry::Global().List()) {
    const Algorithm* const algorithm = AlgorithmOf(*factory);
    if (algorithm == nullptr || !CheckParts(algorithm->traits).ok()) continue;
    ImplementationUnderTest schedule;
    schedule.name = name;
    schedule.factory = factory;
    schedule.algorithm = algorithm;
    schedule.tier = conformance::Tier::kQuick;
    schedules.push_back(std::move(schedule));
  }
  return schedules;
}

std::vector<std::string> ScheduleNames() {
  std::vector<std::string> names;
  for (const auto& schedule : Schedules()) names.push_back(schedule.name);
  return names;
}

ImplementationUnderTest ScheduleNamed(const std::string& name) {
  const std::vector<ImplementationUnderTest> schedules = Schedules();
  return *std::find_if(
      schedules.begin(), schedules.end(),
      [&](const auto& schedule) { return schedule.name == name; });
}

bool RunsAlike(const Case& c) {
  const bool is_short = IsFloating(c.dtype) && SizeOf(c.dtype) <= 2;
  return !is_short || !Reduces(c.type) || c.grid.size() <= kMaxGpuBuffers;
}

bool HasCustomOp(const Case& c) {
  return c.merge_op.is_custom() || c.final_op.is_custom();
}

void LaunchOpsOn(FakeGpuRuntime& runtime, int gpu, CollectiveRequest& request) {
  const MergeOp merge_op = request.merge_op;
  const FinalOp final_op = request.final_op;
  if (merge_op.is_custom()) {
    request.merge_op = *MergeOp::Custom(
        {.name = std::string(merge_op.name()),
         .commutative = merge_op.commutative(),
         .apply = [](auto...) { return absl::InternalError("on the host"); },
         .apply_on_gpu =
             [&runtime, gpu, merge_op](DType dtype, const void* left,
                                       const void* right, void* into,
                                       int64_t num_elements, void* stream) {
               return runtime.Put(
                   {gpu, stream}, [=](FakeGpuMemory& memory) -> absl::Status {
                     const size_t num_bytes =
                         static_cast<size_t>(num_elements) * SizeOf(dtype);
                     ASSIGN_OR_RETURN(const auto* a,
                                      memory.Access(left, num_bytes));
                     ASSIGN_OR_RETURN(const auto* b,
                                      memory.Access(right, num_bytes));
                     ASSIGN_OR_RETURN(auto* c, memory.Access(into, num_bytes));
                     return merge_op.Apply(dtype, a, b, c, num_elements);
                   });
             }});
  }
  if (final_op.is_custom()) {
    request.final_op = *FinalOp::Custom(
        {.name = std::string(final_op.name()),
         .apply = [](auto...) { return absl::InternalError("on the host"); },
         .apply_on_gpu =
             [&runtime, gpu, final_op](DType dtype, void* values,
                                       int64_t num_elements, int group_size,
                                       void* stream) {
               return runtime.Put(
                   {gpu, stream}, [=](FakeGpuMemory& memory) -> absl::Status {
                     ASSIGN_OR_RETURN(auto* v,
                                      memory.Access(values, static_cast<size_t>(
                                                                num_elements) *
                                                                SizeOf(dtype)));
                     return final_op.Apply(dtype, v, num_elements, group_size);
                   });
             }});
  }
}

CaseBuffers MakeCaseBuffers(
    const Case& c, int rank,
    absl::FunctionRef<Tensor(int64_t num_elements)> allocate) {
  const int64_t input = InputElements(c, rank);
  const int64_t output = OutputElements(c, rank);
  CaseBuffers buffers;
  if (IsInPlace(c, rank)) {
    const Tensor all = allocate(std::max(input, output));
    const auto part = [&](int64_t num_elements) {
      if (num_elements == all.num_elements()) return all;
      const int64_t begin = OwnBlockBegin(c, rank);
      return all.Slice(begin, begin + num_elements).value_or(all);
    };
    buffers.input = part(input);
    buffers.output = part(output);
  } else {
    const bool has_output =
        HasOutput(c.type, rank, c.root) && !c.allocates_output;
    if (HasInput(c.type, rank, c.root)) buffers.input = allocate(input);
    if (has_output) buffers.output = allocate(output);
  }
  for (Tensor* const tensor : {&buffers.input, &buffers.output}) {
    if (!tensor->is_set()) continue;
    *tensor =
        tensor->Reshaped(ShapeOf(c, tensor->num_elements())).value_or(*tensor);
  }
  return buffers;
}

CaseBuffers MakeCaseBuffers(CudaDevice& device, const Case& c, int rank) {
  return MakeCaseBuffers(c, rank, [&](int64_t num_elements) {
    return device.Allocate(c.dtype, TensorShape::Vector(num_elements)).value();
  });
}

Bytes Joined(absl::Span<const absl::Span<const std::byte>> pieces) {
  Bytes joined;
  for (const auto piece : pieces) {
    const auto* const begin = reinterpret_cast<const uint8_t*>(piece.data());
    joined.insert(joined.end(), begin, begin + piece.size());
  }
  return joined;
}

}  // namespace tutti
