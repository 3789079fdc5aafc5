#ifndef TUTTI_SCHEDULE_ENGINE_ELEMENT_WORK_H_
#define TUTTI_SCHEDULE_ENGINE_ELEMENT_WORK_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tutti/device.h"
#include "tutti/params.h"
#include "tutti/tensor.h"

namespace tutti {

// Copies and reduces elements for the steps of a run. The processor works at
// once, or the work is put on a device's stream.
//
// Does not own its arguments. Errors: errors of the collective's ops and of the
// stream.
class ElementWork {
 public:
  // Reductions of up to this many operands allocate nothing.
  static constexpr size_t kInlineOperands = 16;

  // `steps` is null if the processor works.
  ElementWork(const CollectiveParams& params, DType dtype, StepStream* steps)
      : params_(params), dtype_(dtype), steps_(steps) {}

  // Copies elements; `into` may be `from`. Applies the final op if `finishes`.
  absl::Status Copy(std::byte* into, const std::byte* from,
                    int64_t num_elements, bool finishes) const;

  // Merges two or more operands one after the other, as Fold(). Applies the
  // final op if `finishes`.
  absl::Status Merge(absl::Span<const std::byte* const> operands,
                     std::byte* into, int64_t num_elements,
                     bool finishes) const;

 private:
  bool HasFinalOp() const { return !params_.instance->final_op.is_identity(); }
  absl::Status MergeOnStream(absl::Span<const std::byte* const> operands,
                             std::byte* into, int64_t num_elements,
                             bool finishes) const;
  absl::Status Finish(std::byte* into, int64_t num_elements) const;

  const CollectiveParams& params_;
  const DType dtype_;
  StepStream* const steps_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_ELEMENT_WORK_H_
