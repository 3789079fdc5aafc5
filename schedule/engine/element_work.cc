#include "schedule/engine/element_work.h"

#include <cstring>

#include "absl/container/inlined_vector.h"
#include "tutti/reduction.h"

namespace tutti {

absl::Status ElementWork::Copy(std::byte* into, const std::byte* from,
                               int64_t num_elements, bool finishes) const {
  const size_t num_bytes = static_cast<size_t>(num_elements) * SizeOf(dtype_);
  if (steps_ == nullptr) {
    if (into != from) std::memcpy(into, from, num_bytes);
    return finishes ? Finish(into, num_elements) : absl::OkStatus();
  }
  if (finishes && HasFinalOp()) {
    return MergeOnStream({from}, into, num_elements, finishes);
  }
  if (into == from) return absl::OkStatus();
  return steps_->Copy(into, from, num_bytes);
}

absl::Status ElementWork::Merge(absl::Span<const std::byte* const> operands,
                                std::byte* into, int64_t num_elements,
                                bool finishes) const {
  if (steps_ != nullptr) {
    return MergeOnStream(operands, into, num_elements, finishes);
  }
  const bool has_op = finishes && HasFinalOp();
  if (operands.size() == 2 && !has_op) {
    return params_.instance->merge_op.Apply(dtype_, operands[0], operands[1],
                                            into, num_elements);
  }
  absl::InlinedVector<const uint8_t*, kInlineOperands> inputs;
  for (const std::byte* operand : operands) {
    inputs.push_back(reinterpret_cast<const uint8_t*>(operand));
  }
  auto* const output = reinterpret_cast<uint8_t*>(into);
  return Fold(dtype_, params_.instance->merge_op,
              has_op ? params_.instance->final_op : FinalOp(),
              {.inputs = inputs,
               .outputs = absl::MakeConstSpan(&output, 1),
               .num_bytes = num_elements * static_cast<int64_t>(SizeOf(dtype_)),
               .group_size = params_.group->size()});
}

absl::Status ElementWork::MergeOnStream(
    absl::Span<const std::byte* const> operands, std::byte* into,
    int64_t num_elements, bool finishes) const {
  const MergeOp& merge_op = params_.instance->merge_op;
  const FinalOp& final_op = params_.instance->final_op;
  finishes &= HasFinalOp();
  const bool divides = finishes && !final_op.is_custom();
  return steps_->Reduce(
      {.custom_merge_op = merge_op.is_custom() ? &merge_op : nullptr,
       .custom_final_op = finishes && !divides ? &final_op : nullptr,
       .group_size = params_.group->size(),
       .kind = merge_op.is_custom() ? ReductionKind::kSum : merge_op.kind(),
       .dtype = dtype_,
       .operands = operands,
       .into = into,
       .num_elements = num_elements,
       .divisor = divides ? params_.group->size() : 1});
}

absl::Status ElementWork::Finish(std::byte* into, int64_t num_elements) const {
  if (!HasFinalOp()) return absl::OkStatus();
  return params_.instance->final_op.Apply(dtype_, into, num_elements,
                                          params_.group->size());
}

}  // namespace tutti
