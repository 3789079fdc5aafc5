#include "gpu/gpu_local_reduce.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "framework/registry.h"
#include "framework/tensor.h"
#include "gpu/gpu_members.h"

namespace tutti {
namespace {

constexpr size_t kMax = kMaxGpuBuffers;

size_t NumBytes(const GpuReduction& reduction) {
  return reduction.num_elements * SizeOf(reduction.dtype);
}

bool Touch(const void* a, const void* b, size_t num_bytes) {
  const auto one = reinterpret_cast<uintptr_t>(a);
  const auto other = reinterpret_cast<uintptr_t>(b);
  return one < other + num_bytes && other < one + num_bytes;
}

template <typename Pointer>
std::vector<Pointer> Part(const std::vector<Pointer>& all, size_t begin,
                          size_t end) {
  const auto at = [&](size_t index) {
    return all.begin() + static_cast<ptrdiff_t>(std::min(index, all.size()));
  };
  return std::vector<Pointer>(at(begin), at(end));
}

// Of the instance on these members, however many they are.
GpuReduction ReductionOf(const GpuMembers& members) {
  const CollInstanceParams& instance = members.instance();
  GpuReduction reduction = {
      .kind = instance.merge_op.kind(),
      .dtype = instance.dtype,
      .num_elements = static_cast<size_t>(instance.shape.num_elements()),
      .divisor = instance.final_op.is_identity() ? 1 : members.size()};
  for (int rank = 0; rank < members.size(); ++rank) {
    reduction.inputs.push_back(members.input(rank));
    if (!HasOutput(instance.type, rank, instance.root)) continue;
    reduction.outputs.push_back(members.output(rank));
  }
  return reduction;
}

absl::StatusOr<GpuPlan> PlanReduce(const GpuMembers& members) {
  const CollInstanceParams& instance = members.instance();
  const GpuReduction reduction = ReductionOf(members);
  GpuPlan plan;
  if (reduction.num_elements == 0) return plan;
  if (members.size() == 1 && instance.final_op.is_identity()) {
    AppendCopies(members.input(0), {members.output(0)}, NumBytes(reduction),
                 &plan.launches);
    return plan;
  }
  if (NeedsScratch(reduction)) {
    absl::StatusOr<Tensor> scratch =
        members.device(0).Allocate(instance.dtype, instance.shape);
    if (!scratch.ok()) return scratch.status();
    plan.scratch = *std::move(scratch);
  }
  plan.launches = SplitReduction(reduction, plan.scratch.mutable_data());
  return plan;
}

// All members are in this process and their GPUs reach each other's memory, so
// the last one to arrive has one kernel read all inputs and write all outputs.
class GpuLocalReducer : public GpuLocalCollective {
 public:
  GpuLocalReducer() : GpuLocalCollective(&PlanReduce) {}
};

ImplementationTraits Traits() {
  ImplementationTraits traits =
      GpuLocalTraits("one pass over up to 8 members' memory, in rank order",
                     {CollectiveType::kAllReduce, CollectiveType::kReduce});
  traits.preserves_rank_order = true;
  traits.why_not_ops = WhyNotOnGpu;
  return traits;
}

REGISTER_COLLECTIVE(GpuLocalReduce, Implemented<GpuLocalReducer>(Traits()));

}  // namespace

void* SetAsideIn(const GpuReduction& reduction) {
  if (reduction.inputs.size() <= kMax) return nullptr;
  const auto unread = Part(reduction.inputs, kMax, reduction.inputs.size());
  const auto found =
      std::find_if(reduction.outputs.begin(), reduction.outputs.end(),
                   [&](const void* output) {
                     return std::none_of(
                         unread.begin(), unread.end(), [&](const void* input) {
                           return Touch(output, input, NumBytes(reduction));
                         });
                   });
  return found == reduction.outputs.end() ? nullptr : *found;
}

bool NeedsScratch(const GpuReduction& reduction) {
  return reduction.inputs.size() > kMax && SetAsideIn(reduction) == nullptr;
}

std::vector<GpuLaunch> SplitReduction(const GpuReduction& reduction,
                                      void* scratch) {
  void* const output = SetAsideIn(reduction);
  void* const aside = output != nullptr ? output : scratch;
  std::vector<GpuLaunch> launches;
  GpuReduction pass = reduction;
  pass.inputs = Part(reduction.inputs, 0, kMax);
  pass.outputs = {aside};
  pass.divisor = 1;
  for (size_t next = kMax; next < reduction.inputs.size(); next += kMax - 1) {
    launches.emplace_back(pass);
    pass.inputs = Part(reduction.inputs, next, next + kMax - 1);
    pass.inputs.insert(pass.inputs.begin(), aside);
  }
  pass.outputs = Part(reduction.outputs, 0, kMax);
  pass.divisor = reduction.divisor;
  launches.emplace_back(pass);
  std::vector<std::byte*> others;
  for (size_t i = kMax; i < reduction.outputs.size(); ++i) {
    others.push_back(static_cast<std::byte*>(reduction.outputs[i]));
  }
  AppendCopies(static_cast<const std::byte*>(reduction.outputs[0]), others,
               NumBytes(reduction), &launches);
  return launches;
}

}  // namespace tutti
