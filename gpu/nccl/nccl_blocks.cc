#include "gpu/nccl/nccl_blocks.h"

#include <utility>

#include "absl/status/statusor.h"
#include "framework/base/status_macros.h"
#include "gpu/passes/gpu_members.h"
#include "gpu/runtime/gpu_launch.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

void AppendCall(const CollectiveContext& context, int peer,
                const NcclBlock& block, NcclCall call, NcclPlan* plan) {
  if (block.num_elements == 0 || peer == context.rank()) return;
  call.num_elements = block.num_elements;
  call.dtype = context.params->instance->dtype;
  call.peer = peer;
  plan->calls.push_back(call);
}

}  // namespace

NcclBlock TakeBlock(const CollectiveContext& context, int from, int to,
                    std::byte** next) {
  const CollInstanceParams& instance = *context.params->instance;
  const int64_t rows =
      BlockRows(instance, context.params->group->size(), from, to);
  const NcclBlock block = {
      .begin = *next,
      .num_elements = static_cast<size_t>(rows * RowElements(instance.shape))};
  if (*next != nullptr) *next += block.num_elements * SizeOf(instance.dtype);
  return block;
}

void AppendSend(const CollectiveContext& context, int to,
                const NcclBlock& block, NcclPlan* plan) {
  AppendCall(context, to, block, {.op = NcclOp::kSend, .input = block.begin},
             plan);
}

void AppendRecv(const CollectiveContext& context, int from,
                const NcclBlock& block, NcclPlan* plan) {
  AppendCall(context, from, block, {.op = NcclOp::kRecv, .output = block.begin},
             plan);
}

void AppendOwn(const CollectiveContext& context, const NcclBlock& from,
               const NcclBlock& to, NcclPlan* plan) {
  AppendCopies(from.begin, {to.begin},
               from.num_elements * SizeOf(context.params->instance->dtype),
               &plan->before);
}

absl::StatusOr<std::byte*> SendableInput(const CollectiveContext& context,
                                         NcclPlan* plan) {
  const Tensor& input = context.input;
  // Const in effect: nobody writes to it.
  auto* const data = const_cast<std::byte*>(input.data());
  if (OverlapOf(input, context.output) == Overlap::kNone) return data;
  ASSIGN_OR_RETURN(plan->scratch, CudaDeviceOf(context).Allocate(
                                      input.dtype(), input.shape()));
  std::byte* const copy = plan->scratch.mutable_data();
  AppendCopies(data, {copy}, input.size_bytes(), &plan->before);
  return copy;
}

}  // namespace tutti
