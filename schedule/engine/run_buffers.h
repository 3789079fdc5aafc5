#ifndef TUTTI_SCHEDULE_ENGINE_RUN_BUFFERS_H_
#define TUTTI_SCHEDULE_ENGINE_RUN_BUFFERS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "schedule/engine/bound_schedule.h"
#include "schedule/engine/scratch_pool.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/schedule.h"
#include "tutti/tensor.h"

namespace tutti {

// Returns true for a barrier, which moves no bytes of the device.
inline bool IsBarrier(const CollectiveContext& context) {
  return context.params->instance->type == CollectiveType::kBarrier;
}

// Bytes of the slots of a run: the member's input and output, and scratch. The
// run allocates scratch at its start and releases it at its end. Small scratch
// stays until the next start.
//
// Addresses may be taken on any thread between Open() and Close(); the run
// calls those two alone.
class RunBuffers {
 public:
  // `bound` outlives this object.
  explicit RunBuffers(const BoundSchedule& bound)
      : bound_(bound), element_bytes_(SizeOf(bound.dtype())) {}
  RunBuffers(const RunBuffers&) = delete;
  RunBuffers& operator=(const RunBuffers&) = delete;

  // Size of the scratch that stays.
  static size_t NumKeptBytes(const BoundSchedule& bound) {
    return KeepsScratch(bound) ? bound.scratch_bytes() : 0;
  }

  // Uses the tensors of `context` until Close(), and allocates scratch.
  // `is_on_host`: the context's device has host memory. Errors: errors of
  // Device::Allocate(); Close() is due nevertheless.
  absl::Status Open(const CollectiveContext& context, bool is_on_host);

  // Scratch used by a device's stream never stays.
  void Close(bool is_on_stream);

  size_t element_bytes() const { return element_bytes_; }

  int64_t ElementsOf(const Slot& slot) const {
    return bound_.chunks().RangeOf(slot).size;
  }

  // Size of the slot's bytes.
  size_t BytesOf(const Slot& slot) const {
    return static_cast<size_t>(ElementsOf(slot)) * element_bytes_;
  }

  const std::byte* Address(const Slot& slot) {
    if (slot.space != Space::kInput) return MutableAddress(slot);
    if (!context_->input.is_set()) return &kToken;
    return context_->input.data() + OffsetOf(slot);
  }

  // REQUIRES: the slot is not in the input.
  std::byte* MutableAddress(const Slot& slot) {
    if (slot.space == Space::kScratch) {
      return scratch_.mutable_data() + bound_.ScratchOffset(slot);
    }
    // The context owns the tensor, but this run may write its bytes.
    return const_cast<std::byte*>(context_->output.data()) + OffsetOf(slot);
  }

 private:
  // Byte that a barrier sends.
  static constexpr std::byte kToken{0};

  // Small scratch stays in the run, if the processor works.
  static bool KeepsScratch(const BoundSchedule& bound) {
    return bound.scratch_bytes() <= ScratchPool::kFewBytes;
  }
  // Device memory may become free in the device's own order, and is not pooled.
  bool KeepsScratchInPool() const {
    return bound_.scratch_pool() != nullptr && !IsBarrier(*context_) &&
           is_on_host_;
  }
  absl::StatusOr<Tensor> TakeScratch(size_t num_bytes);
  size_t OffsetOf(const Slot& slot) const {
    return static_cast<size_t>(bound_.chunks().RangeOf(slot).begin) *
           element_bytes_;
  }

  const BoundSchedule& bound_;
  const size_t element_bytes_;
  Tensor scratch_;
  const CollectiveContext* context_ = nullptr;
  bool is_on_host_ = false;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_RUN_BUFFERS_H_
