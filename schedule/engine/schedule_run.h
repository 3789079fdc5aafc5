#ifndef TUTTI_SCHEDULE_ENGINE_SCHEDULE_RUN_H_
#define TUTTI_SCHEDULE_ENGINE_SCHEDULE_RUN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "schedule/compiled_schedule.h"
#include "schedule/engine/bound_schedule.h"
#include "schedule/engine/element_work.h"
#include "schedule/engine/op_waits.h"
#include "schedule/engine/ready_ops.h"
#include "schedule/engine/run_buffers.h"
#include "schedule/engine/run_stream.h"
#include "schedule/engine/spare_objects.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"
#include "tutti/params.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {

// Bytes that a thread reduces in the time of a hand-over to another thread:
// about 20 us at 10 GB/s (2 cores, Zen 4, 2026-11).
inline constexpr size_t kInlineBytes = size_t{256} << 10;

// Run of a member's schedule, which can then start again. Counts the ops in
// progress and the waits of the others, and ends with the last op.
//
// Thread-safe: an op runs on the thread that completes its last wait. Calls
// nothing with a lock held. ScheduleRunner has the promises to callers.
class ScheduleRun final : public Sender, public Receiver {
 public:
  using Spares = SpareObjects<ScheduleRun>;
  using Ready = ReadyOps<ScheduleRun>;

  // `bound` and `spares` outlive this run.
  ScheduleRun(const BoundSchedule& bound, Spares& spares);

  // Size of a spare run.
  static size_t NumSpareBytes(const BoundSchedule& bound);

  // Starts the run. It owns itself until its end, and then joins the spares.
  static void Start(std::unique_ptr<ScheduleRun> owned,
                    const CollectiveContext& context, StatusCallback done);

  // Runs an op whose waits are over. Inline, as Send() and Recv(): each has one
  // caller, and small transfers take little longer than the calls.
  ABSL_ATTRIBUTE_ALWAYS_INLINE inline void RunOp(int32_t index);

  void OnReleased(int32_t index, absl::Status status) override;
  void OnReleasedAfter(int32_t index, const DeviceFence& read) override;
  absl::Status OnPart(int32_t index, size_t offset,
                      absl::Span<const std::byte> part) override;
  std::shared_ptr<DeviceLanding> Land(int32_t index, size_t num_bytes) override;
  absl::Status OnLanded(int32_t index, size_t offset,
                        std::shared_ptr<DeviceLanding> part) override;
  void OnDelivery(int32_t index, absl::Status status,
                  Delivery delivery) override;

 private:
  using Op = CompiledSchedule::Op;

  // Stands for the start among the ready ops, after the roots: the run has
  // launched. A run with nothing to do also ends from here, so that a chain of
  // such runs does not deepen the stack.
  static constexpr int32_t kStart = -1;

  absl::Status OpenSteps();
  bool ShouldStop();
  void Fail(absl::Status status);
  void Complete(int32_t index);
  void EndOne();
  void EndStream();
  void End();

  ABSL_ATTRIBUTE_ALWAYS_INLINE inline void Send(int32_t index);
  void SendWithFence(int32_t index, absl::Span<const std::byte> bytes);
  void SendFromDevice(int32_t index, absl::Span<const std::byte> bytes,
                      std::shared_ptr<DeviceLanding> copy);
  void SendFromHost(int32_t index, absl::Span<const std::byte> bytes);
  void Post(int32_t index, absl::Span<const std::byte> bytes,
            const DeviceFence* written);
  void CompleteSend(int32_t index, absl::Status status);
  ABSL_ATTRIBUTE_ALWAYS_INLINE inline void Recv(int32_t index);
  void Consume(int32_t index, Delivery delivery);
  void ConsumeWithFence(int32_t index, Delivery delivery);
  absl::Status TakeFromHost(const Op& op, size_t offset,
                            absl::Span<const std::byte> incoming);
  absl::Status Take(const Op& op, size_t offset, const std::byte* incoming,
                    size_t num_bytes);
  void Compute(int32_t index);
  absl::Status ComputeNow(const Op& op);

  ElementWork Work() const {
    return {*context_->params, dtype_,
            stream_.has_value() ? &stream_->steps() : nullptr};
  }
  bool IsInThisProcess(int rank) const {
    return context_->params->task->is_local[static_cast<size_t>(rank)];
  }
  // If members give their own rows, one may take a chunk for empty and its peer
  // not. The transfer then runs, and finds the different sizes.
  bool skips_empty() const {
    return !context_->params->instance->rows_are_given;
  }
  BufKey KeyOf(const Op& op, int from, int to) const {
    return {context_->exec_key, context_->first_tag + op.tag,
            bound_.RankInKeys(from), bound_.RankInKeys(to)};
  }
  const CollGroupMember& MemberOf(int rank) const {
    return context_->params->group->members[static_cast<size_t>(rank)];
  }
  const Op& OpAt(int32_t index) const {
    return ops_[static_cast<size_t>(index)];
  }

  const BoundSchedule& bound_;
  Spares& spares_;
  const CompiledSchedule& schedule_;
  const std::vector<Op>& ops_;
  const DType dtype_;
  RunBuffers buffers_;

  // State of an execution, gone when `done` runs.
  const CollectiveContext* context_ = nullptr;
  StatusCallback done_;

  // Facts of the execution's device. The device may be gone when the last op on
  // the host ends.
  bool is_on_host_ = false;
  uint64_t incarnation_ = 0;
  std::unique_ptr<ScheduleRun> self_;
  std::optional<RunStream> stream_;  // Not set if the processor works.

  // Ops in progress, plus 1 for the start. The run ends at zero.
  std::atomic<int32_t> num_under_way_{1};
  std::atomic<bool> failed_{false};
  absl::Status status_;  // Written once, by the thread that sets failed_.

  OpWaits waits_;

  // By op: deliveries for the work queue, whose closures have no room for them.
  // Null if the work queue receives nothing.
  const std::unique_ptr<Delivery[]> handed_over_;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_SCHEDULE_RUN_H_
