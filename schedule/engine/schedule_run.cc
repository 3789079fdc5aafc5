#include "schedule/engine/schedule_run.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/collective/group_resources.h"
#include "schedule/engine/bound_schedule.h"
#include "schedule/engine/element_work.h"
#include "schedule/engine/ready_ops.h"
#include "schedule/engine/scratch_pool.h"
#include "schedule/engine/spare_objects.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

using Op = CompiledSchedule::Op;
using Incoming = CompiledSchedule::Incoming;

// Byte that a barrier sends.
constexpr std::byte kToken{0};

// State of a run whose steps are on a device's stream.
struct OnStream {
  OnStream(std::unique_ptr<StepStream> steps, size_t num_ops)
      : steps(std::move(steps)),
        written(num_ops),
        on_device(num_ops),
        on_host(num_ops) {}

  const std::unique_ptr<StepStream> steps;

  // By op, while it sends: the fence of bytes for members of this process, and
  // the copies for other processes.
  std::vector<std::shared_ptr<const DeviceFence>> written;
  std::vector<std::shared_ptr<DeviceLanding>> on_device;
  std::vector<Tensor> on_host;

  Mutex mu;

  // Deliveries that a stream may still read, because the end of the read could
  // not be marked. Released when the stream has ended.
  std::vector<Delivery> unmarked ABSL_GUARDED_BY(mu);

  // Sends in progress to members of this process.
  int32_t num_lent ABSL_GUARDED_BY(mu) = 0;

  // True once the end of the stream has become an op in progress.
  bool is_ending ABSL_GUARDED_BY(mu) = false;
};

// Returns true if the work queue receives any chunk.
bool ReceivesLarge(const BoundSchedule& bound) {
  return absl::c_any_of(bound.schedule().ops(), [&](const Op& op) {
    return op.kind == StepKind::kRecv &&
           static_cast<size_t>(bound.chunks().RangeOf(op.into).size) *
                   SizeOf(bound.dtype()) >
               kInlineBytes;
  });
}

// Returns null if `is_needed` is false.
template <typename T>
std::unique_ptr<T[]> ArrayIf(bool is_needed, size_t size) {
  return is_needed ? std::make_unique<T[]>(size) : nullptr;
}

// Runs the schedule once, and can then start again.
class ScheduleRun final : public Lender, public Borrower {
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

  // Runs an op whose waits are over.
  void RunOp(int32_t index);

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
  // Most schedules of small groups fit.
  static constexpr size_t kInlineOps = 64;

  // Stands for the start among the ready ops, after the roots: the run has
  // launched. A run with nothing to do also ends from here, so that a chain of
  // such runs does not deepen the stack.
  static constexpr int32_t kStart = -1;

  absl::Status OpenSteps();
  absl::Status AllocateScratch();
  absl::StatusOr<Tensor> TakeScratch(size_t num_bytes);
  void SetWaits();
  bool ShouldStop();
  void Fail(absl::Status status);
  void Complete(int32_t index);
  bool IsOver(int32_t index);
  void EndOne();
  enum class Next { kWait, kEndStream, kEnd };
  Next NextOnStream();
  void EndStream();
  void End();
  void LetGoOfScratch();
  void ReleaseUnmarked();

  void Send(int32_t index);
  void SendWithFence(int32_t index, absl::Span<const std::byte> bytes);
  std::shared_ptr<DeviceLanding> LandToSend(size_t num_bytes);
  void SendFromDevice(int32_t index, absl::Span<const std::byte> bytes,
                      std::shared_ptr<DeviceLanding> copy);
  void SendFromHost(int32_t index, absl::Span<const std::byte> bytes);
  void Post(int32_t index, absl::Span<const std::byte> bytes,
            const DeviceFence* written);
  void TakeBack(int32_t index);
  void CompleteSend(int32_t index, absl::Status status);
  void Recv(int32_t index);
  void Consume(int32_t index, Delivery delivery);
  void ConsumeWithFence(int32_t index, Delivery delivery);
  absl::Status TakeFromHost(const Op& op, size_t offset,
                            absl::Span<const std::byte> incoming);
  absl::Status Take(const Op& op, size_t offset, const std::byte* incoming,
                    size_t num_bytes);
  void Compute(int32_t index);
  absl::Status ComputeNow(const Op& op);

  bool IsBarrier() const {
    return context_->params->instance->type == CollectiveType::kBarrier;
  }
  // Small scratch stays in the run, if the processor works.
  static bool KeepsScratchInRun(const BoundSchedule& bound) {
    return bound.scratch_bytes() <= ScratchPool::kFewBytes;
  }
  // Device memory may become free in the device's own order, and is not pooled.
  bool KeepsScratchInPool() const {
    return bound_.scratch_pool() != nullptr && !IsBarrier() && is_on_host_;
  }
  ElementWork Work() const {
    return {*context_->params, dtype_,
            on_stream_.has_value() ? on_stream_->steps.get() : nullptr};
  }
  bool IsInThisProcess(int rank) const {
    return context_->params->task->is_local[static_cast<size_t>(rank)];
  }
  // If members give their own rows, one may take a chunk for empty and its peer
  // not. The transfer then runs, and finds the different sizes.
  bool skips_empty() const {
    return !context_->params->instance->rows_are_given;
  }
  int64_t ElementsOf(const Slot& slot) const {
    return bound_.chunks().RangeOf(slot).size;
  }
  const std::byte* Address(const Slot& slot);
  std::byte* MutableAddress(const Slot& slot);
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
  const size_t element_bytes_;
  Tensor scratch_;  // Small scratch stays until the next start.

  // State of an execution, gone when `done` runs.
  const CollectiveContext* context_ = nullptr;
  StatusCallback done_;

  // Facts of the execution's device. The device may be gone when the last op on
  // the host ends.
  bool is_on_host_ = false;
  uint64_t incarnation_ = 0;
  std::unique_ptr<ScheduleRun> self_;
  std::optional<OnStream> on_stream_;  // Not set if the processor works.

  // Ops in progress, plus 1 for the start. The run ends at zero.
  std::atomic<int32_t> num_under_way_{1};
  std::atomic<bool> failed_{false};
  absl::Status status_;  // Written once, by the thread that sets failed_.

  // By op: completions that the op still waits for.
  std::atomic<uint8_t>* waits_ = nullptr;
  std::array<std::atomic<uint8_t>, kInlineOps> few_waits_;
  const std::unique_ptr<std::atomic<uint8_t>[]> many_waits_;

  // By op: deliveries for the work queue, whose closures have no room for them.
  // Null if the work queue receives nothing.
  const std::unique_ptr<Delivery[]> handed_over_;
};

ScheduleRun::ScheduleRun(const BoundSchedule& bound, Spares& spares)
    : bound_(bound),
      spares_(spares),
      schedule_(bound.schedule()),
      ops_(schedule_.ops()),
      dtype_(bound.dtype()),
      element_bytes_(SizeOf(dtype_)),
      many_waits_(
          ArrayIf<std::atomic<uint8_t>>(ops_.size() > kInlineOps, ops_.size())),
      handed_over_(ArrayIf<Delivery>(ReceivesLarge(bound), ops_.size())) {
  waits_ = many_waits_ == nullptr ? few_waits_.data() : many_waits_.get();
}

size_t ScheduleRun::NumSpareBytes(const BoundSchedule& bound) {
  const size_t num_ops = bound.schedule().ops().size();
  size_t num_bytes = sizeof(ScheduleRun);
  if (num_ops > kInlineOps) num_bytes += num_ops;
  if (ReceivesLarge(bound)) num_bytes += num_ops * sizeof(Delivery);
  if (KeepsScratchInRun(bound)) num_bytes += bound.scratch_bytes();
  return num_bytes;
}

void ScheduleRun::Start(std::unique_ptr<ScheduleRun> owned,
                        const CollectiveContext& context, StatusCallback done) {
  ScheduleRun* const run = owned.get();
  run->self_ = std::move(owned);
  run->context_ = &context;
  run->is_on_host_ = context.device->has_host_memory();
  run->incarnation_ = context.device->attributes().incarnation;
  run->done_ = std::move(done);
  run->num_under_way_.store(1, std::memory_order_relaxed);
  run->failed_.store(false, std::memory_order_relaxed);
  absl::Status status = run->OpenSteps();
  if (status.ok()) status = run->AllocateScratch();
  if (!status.ok()) {
    run->Fail(std::move(status));
    Ready::Add(run, kStart);
    return Ready::RunAll();
  }
  run->SetWaits();
  for (const int32_t root : run->schedule_.roots()) {
    run->num_under_way_.fetch_add(1, std::memory_order_relaxed);
    Ready::Add(run, root);
  }
  Ready::Add(run, kStart);
  Ready::RunAll();
}

absl::Status ScheduleRun::OpenSteps() {
  if (is_on_host_ || IsBarrier()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<StepStream>> steps =
      context_->device->OpenSteps(*context_->executor->environment().clock);
  if (!steps.ok()) return steps.status();
  if (*steps == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(context_->device->full_name(), " runs no steps"));
  }
  on_stream_.emplace(*std::move(steps), ops_.size());
  return absl::OkStatus();
}

absl::Status ScheduleRun::AllocateScratch() {
  if (bound_.scratch_bytes() == 0 || scratch_.is_set()) {
    return absl::OkStatus();
  }
  auto scratch = TakeScratch(bound_.scratch_bytes());
  if (!scratch.ok()) return scratch.status();
  scratch_ = *std::move(scratch);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ScheduleRun::TakeScratch(size_t num_bytes) {
  Device& device = *context_->device;
  if (KeepsScratchInPool()) {
    return bound_.scratch_pool()->Take(context_->rank(), device, num_bytes);
  }
  const TensorShape shape =
      TensorShape::Vector(static_cast<int64_t>(num_bytes));
  return IsBarrier() ? Tensor::Allocate(DType::kUint8, shape)
                     : device.Allocate(DType::kUint8, shape);
}

void ScheduleRun::SetWaits() {
  for (size_t i = 0; i < ops_.size(); ++i) {
    waits_[i].store(ops_[i].num_waits, std::memory_order_relaxed);
  }
}

// Returns true once no new op may start.
bool ScheduleRun::ShouldStop() {
  if (failed_.load(std::memory_order_relaxed)) return true;
  const Cancellation& cancellation = context_->execution->cancellation;
  if (!cancellation.cancelled()) return false;
  Fail(cancellation.status());
  return true;
}

// REQUIRES: the caller's op is in progress. The op keeps the run alive and
// publishes `status_`.
void ScheduleRun::Fail(absl::Status status) {
  if (failed_.exchange(true, std::memory_order_relaxed)) return;
  status_ = std::move(status);
  context_->executor->FailExecution(*context_->execution, status_);
}

// A completed op hands its place in num_under_way_ to the first op that it
// makes ready.
void ScheduleRun::Complete(int32_t index) {
  int32_t num_ready = 0;
  if (!failed_.load(std::memory_order_relaxed)) {
    for (const int32_t dependent : schedule_.dependents(OpAt(index))) {
      if (!IsOver(dependent)) continue;
      if (++num_ready > 1) {
        num_under_way_.fetch_add(1, std::memory_order_relaxed);
      }
      Ready::Add(this, dependent);
    }
  }
  if (num_ready == 0) EndOne();
}

// Counts one completion. Returns true if the op is ready.
bool ScheduleRun::IsOver(int32_t index) {
  return OpAt(index).num_waits == 1 ||
         waits_[index].fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void ScheduleRun::EndOne() {
  if (!on_stream_.has_value()) {
    if (num_under_way_.fetch_sub(1, std::memory_order_acq_rel) == 1) End();
    return;
  }
  switch (NextOnStream()) {
    case Next::kWait:
      return;
    case Next::kEndStream:
      return EndStream();
    case Next::kEnd:
      return End();
  }
}

// The last op hands its place to the end of the stream. After an error, the
// last op besides posted sends does the same. Their peers may wait for
// deliveries that this run releases only at that end.
ScheduleRun::Next ScheduleRun::NextOnStream() {
  OnStream& on_stream = *on_stream_;
  MutexLock lock(&on_stream.mu);
  const int32_t num_others = num_under_way_.load(std::memory_order_acquire) - 1;
  if (!on_stream.is_ending && num_others == on_stream.num_lent) {
    on_stream.is_ending = num_others == 0 || !on_stream.unmarked.empty();
    if (on_stream.is_ending) return Next::kEndStream;
  }
  const bool is_last =
      num_under_way_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  return is_last ? Next::kEnd : Next::kWait;
}

void ScheduleRun::EndStream() {
  on_stream_->steps->CallWhenOver([this](absl::Status status) {
    // A cancellation in the meantime also fails the run, though all steps have
    // run.
    if (!status.ok()) Fail(std::move(status));
    ShouldStop();
    ReleaseUnmarked();
    EndOne();
  });
}

void ScheduleRun::End() {
  StatusCallback done = std::exchange(done_, nullptr);
  absl::Status status = std::exchange(status_, absl::OkStatus());
  LetGoOfScratch();
  on_stream_.reset();  // The device may be gone after `done`.
  context_ = nullptr;
  spares_.Keep(std::move(self_));  // Keeps or destroys this run.
  std::move(done)(std::move(status));
}

void ScheduleRun::LetGoOfScratch() {
  const bool stays = KeepsScratchInRun(bound_) && !on_stream_.has_value();
  if (stays || !scratch_.is_set()) return;
  if (KeepsScratchInPool()) {
    bound_.scratch_pool()->Give(context_->rank(), std::move(scratch_));
  }
  scratch_ = Tensor();
}

void ScheduleRun::ReleaseUnmarked() {
  std::vector<Delivery> unmarked;
  {
    MutexLock lock(&on_stream_->mu);
    unmarked.swap(on_stream_->unmarked);
  }
  for (const Delivery& delivery : unmarked) delivery.Release(status_);
}

void ScheduleRun::RunOp(int32_t index) {
  if (index == kStart) {
    context_->executor->Launched(*context_);
    return EndOne();
  }
  if (ShouldStop()) return Complete(index);
  switch (OpAt(index).kind) {
    case StepKind::kSend:
      return Send(index);
    case StepKind::kRecv:
      return Recv(index);
    case StepKind::kReduce:
    case StepKind::kCopy:
      return Compute(index);
    case StepKind::kWait:
      return Complete(index);
  }
}

void ScheduleRun::Send(int32_t index) {
  const Op& op = OpAt(index);
  const int64_t num_elements = ElementsOf(op.left);
  if (num_elements == 0) {
    return skips_empty() ? Complete(index) : Post(index, {}, nullptr);
  }
  const absl::Span<const std::byte> bytes(
      Address(op.left), static_cast<size_t>(num_elements) * element_bytes_);
  if (!on_stream_.has_value()) return Post(index, bytes, nullptr);
  if (IsInThisProcess(op.peer)) return SendWithFence(index, bytes);
  auto copy = LandToSend(bytes.size());
  if (copy == nullptr) return SendFromHost(index, bytes);
  SendFromDevice(index, bytes, std::move(copy));
}

void ScheduleRun::SendWithFence(int32_t index,
                                absl::Span<const std::byte> bytes) {
  auto written = on_stream_->steps->Mark();
  if (!written.ok()) {
    Fail(written.status());
    return Complete(index);
  }
  auto& lent = on_stream_->written[static_cast<size_t>(index)];
  lent = *std::move(written);
  {
    MutexLock lock(&on_stream_->mu);
    ++on_stream_->num_lent;
  }
  Post(index, bytes, lent.get());
}

// Returns memory for a send from the device, or null if the host sends.
std::shared_ptr<DeviceLanding> ScheduleRun::LandToSend(size_t num_bytes) {
  const bool is_direct =
      on_stream_->steps->opens_memory() &&
      num_bytes >= context_->executor->peers().least_device_bytes();
  return is_direct ? on_stream_->steps->Land(num_bytes) : nullptr;
}

// Copies the bytes to a landing and posts it. The reader bypasses the stream
// and can open only landings, not tensors. The stream also holds the landing
// until the copy is made, so that its memory is not reused before.
void ScheduleRun::SendFromDevice(int32_t index,
                                 absl::Span<const std::byte> bytes,
                                 std::shared_ptr<DeviceLanding> copy) {
  StepStream& steps = *on_stream_->steps;
  std::byte* const into = copy->bytes().data();
  on_stream_->on_device[static_cast<size_t>(index)] = copy;
  absl::Status status =
      steps.ReadLanding(std::move(copy), [&](const std::byte* /*bytes*/) {
        return steps.Copy(into, bytes.data(), bytes.size());
      });
  if (!status.ok()) return OnReleased(index, std::move(status));
  steps.CallWhenWritten([this, index](absl::Status status) {
    if (!status.ok() || ShouldStop()) {
      return OnReleased(index, std::move(status));
    }
    const auto& copy = on_stream_->on_device[static_cast<size_t>(index)];
    Post(index, copy->bytes(), nullptr);
    Ready::RunAll();
  });
}

// Copies the bytes to the host and posts the copy. `bytes` may be overwritten
// when the send completes, with no wait for the copy.
void ScheduleRun::SendFromHost(int32_t index,
                               absl::Span<const std::byte> bytes) {
  on_stream_->steps->CopyToHost(
      bytes, [this, index](absl::StatusOr<Tensor> copy) {
        if (copy.ok() && !ShouldStop()) {
          Tensor& lent = on_stream_->on_host[static_cast<size_t>(index)];
          lent = *std::move(copy);
          Post(index, {lent.data(), lent.size_bytes()}, nullptr);
        } else {
          if (!copy.ok()) Fail(copy.status());
          copy = absl::CancelledError();  // Frees the copy: the run may end.
          Complete(index);
        }
        Ready::RunAll();
      });
}

void ScheduleRun::Post(int32_t index, absl::Span<const std::byte> bytes,
                       const DeviceFence* written) {
  const Op& op = OpAt(index);
  context_->executor->peers().PostToPeer(MemberOf(op.peer),
                                         KeyOf(op, context_->rank(), op.peer),
                                         {.bytes = bytes,
                                          .dtype = dtype_,
                                          .incarnation = incarnation_,
                                          .lender = this,
                                          .id = index,
                                          .written = written});
}

void ScheduleRun::OnReleased(int32_t index, absl::Status status) {
  TakeBack(index);
  CompleteSend(index, std::move(status));
}

// If the end of the stream is already in place, the wait comes after it. The
// wait then only orders the release of memory after the read.
void ScheduleRun::OnReleasedAfter(int32_t index, const DeviceFence& read) {
  TakeBack(index);
  CompleteSend(index, on_stream_->steps->WaitFor(read));
}

// Ends the post of the op's bytes. From now on the op may use the stream, or
// fail.
void ScheduleRun::TakeBack(int32_t index) {
  if (!on_stream_.has_value()) return;
  on_stream_->on_device[static_cast<size_t>(index)] = nullptr;
  on_stream_->on_host[static_cast<size_t>(index)] = Tensor();
  auto& lent = on_stream_->written[static_cast<size_t>(index)];
  if (lent == nullptr) return;
  lent = nullptr;
  MutexLock lock(&on_stream_->mu);
  --on_stream_->num_lent;
}

void ScheduleRun::CompleteSend(int32_t index, absl::Status status) {
  if (!status.ok()) Fail(std::move(status));
  Complete(index);
  Ready::RunAll();
}

void ScheduleRun::Recv(int32_t index) {
  const Op& op = OpAt(index);
  const int64_t num_elements = ElementsOf(op.into);
  if (num_elements == 0 && skips_empty()) return Complete(index);
  const CollGroupMember& peer = MemberOf(op.peer);
  const size_t num_bytes = static_cast<size_t>(num_elements) * element_bytes_;
  const bool is_copy_on_host = op.incoming == Incoming::kNone &&
                               !on_stream_.has_value() && num_bytes > 0;
  context_->executor->peers().RecvFromPeer(
      peer, KeyOf(op, op.peer, context_->rank()),
      {.num_bytes = num_bytes,
       .dtype = dtype_,
       .incarnation = peer.device.incarnation,
       .borrower = this,
       .id = index,
       .into = is_copy_on_host
                   ? absl::MakeSpan(MutableAddress(op.into), num_bytes)
                   : absl::Span<std::byte>()});
}

void ScheduleRun::OnDelivery(int32_t index, absl::Status status,
                             Delivery delivery) {
  if (!status.ok()) {
    Fail(std::move(status));
    Complete(index);
    return Ready::RunAll();
  }
  if (delivery.written != nullptr) return ConsumeWithFence(index, delivery);
  if (delivery.bytes.size() <= kInlineBytes) return Consume(index, delivery);
  handed_over_[static_cast<size_t>(index)] = delivery;
  context_->executor->environment().queue->Schedule([this, index] {
    Consume(index, std::exchange(handed_over_[static_cast<size_t>(index)], {}));
  });
}

absl::Status ScheduleRun::OnPart(int32_t index, size_t offset,
                                 absl::Span<const std::byte> part) {
  if (ShouldStop()) return context_->execution->cancellation.status();
  return TakeFromHost(OpAt(index), offset, part);
}

std::shared_ptr<DeviceLanding> ScheduleRun::Land(int32_t /*index*/,
                                                 size_t num_bytes) {
  if (!on_stream_.has_value() || ShouldStop()) return nullptr;
  return on_stream_->steps->Land(num_bytes);
}

absl::Status ScheduleRun::OnLanded(int32_t index, size_t offset,
                                   std::shared_ptr<DeviceLanding> part) {
  if (ShouldStop()) return context_->execution->cancellation.status();
  const size_t num_bytes = part->bytes().size();
  return on_stream_->steps->ReadLanding(
      std::move(part), [&](const std::byte* bytes) {
        return Take(OpAt(index), offset, bytes, num_bytes);
      });
}

absl::Status ScheduleRun::TakeFromHost(const Op& op, size_t offset,
                                       absl::Span<const std::byte> incoming) {
  if (!on_stream_.has_value()) {
    return Take(op, offset, incoming.data(), incoming.size());
  }
  return on_stream_->steps->ReadHost(incoming, [&](const std::byte* bytes) {
    return Take(op, offset, bytes, incoming.size());
  });
}

// Copies or reduces the peer's bytes into their place.
absl::Status ScheduleRun::Take(const Op& op, size_t offset,
                               const std::byte* incoming, size_t num_bytes) {
  const auto num_elements = static_cast<int64_t>(num_bytes / element_bytes_);
  std::byte* const into = MutableAddress(op.into) + offset;
  if (op.incoming == Incoming::kNone) {
    return Work().Copy(into, incoming, num_elements, op.finish);
  }
  const bool is_left = op.incoming == Incoming::kLeft;
  const std::byte* const own = Address(is_left ? op.right : op.left) + offset;
  const std::byte* const operands[] = {is_left ? incoming : own,
                                       is_left ? own : incoming};
  return Work().Merge(operands, into, num_elements, op.finish);
}

// Reads the delivery and releases it. Deliveries that came in parts and empty
// chunks have nothing left to read.
void ScheduleRun::Consume(int32_t index, Delivery delivery) {
  absl::Status status;
  if (delivery.lender != nullptr && !delivery.bytes.empty()) {
    status = TakeFromHost(OpAt(index), /*offset=*/0, delivery.bytes);
  }
  // Release first: a completion could run `done` while the peer still posts
  // bytes.
  if (!status.ok()) Fail(status);
  delivery.Release(std::move(status));
  Complete(index);
  Ready::RunAll();
}

// Reads the delivery on the stream. The peer continues as soon as its stream
// waits for this read.
void ScheduleRun::ConsumeWithFence(int32_t index, Delivery delivery) {
  StepStream& steps = *on_stream_->steps;
  absl::Status status = steps.ReadPeer(
      delivery.bytes, *delivery.written, [&](const std::byte* bytes) {
        return Take(OpAt(index), /*offset=*/0, bytes, delivery.bytes.size());
      });
  auto read = steps.Mark();
  status.Update(read.status());
  if (!status.ok()) Fail(status);
  if (read.ok()) {
    delivery.lender->OnReleasedAfter(delivery.id, **read);
  } else {
    MutexLock lock(&on_stream_->mu);
    on_stream_->unmarked.push_back(delivery);
  }
  read = absl::CancelledError();  // Frees the fence: the run may end.
  Complete(index);
  Ready::RunAll();
}

void ScheduleRun::Compute(int32_t index) {
  const Op& op = OpAt(index);
  const auto num_bytes =
      static_cast<size_t>(ElementsOf(op.into)) * element_bytes_;
  const auto run = [this, index] {
    absl::Status status = ComputeNow(OpAt(index));
    if (!status.ok()) Fail(std::move(status));
    Complete(index);
    Ready::RunAll();
  };
  if (on_stream_.has_value() || num_bytes <= kInlineBytes) return run();
  context_->executor->environment().queue->Schedule(run);
}

absl::Status ScheduleRun::ComputeNow(const Op& op) {
  const int64_t num_elements = ElementsOf(op.into);
  if (num_elements == 0) return absl::OkStatus();
  std::byte* const into = MutableAddress(op.into);
  const std::byte* const left = Address(op.left);
  if (op.kind == StepKind::kCopy) {
    return Work().Copy(into, left, num_elements, op.finish);
  }
  absl::InlinedVector<const std::byte*, ElementWork::kInlineOperands> operands =
      {left, Address(op.right)};
  for (const Slot& slot : schedule_.more(op)) {
    operands.push_back(Address(slot));
  }
  return Work().Merge(operands, into, num_elements, op.finish);
}

const std::byte* ScheduleRun::Address(const Slot& slot) {
  if (slot.space != Space::kInput) return MutableAddress(slot);
  if (!context_->input.is_set()) return &kToken;
  return context_->input.data() +
         static_cast<size_t>(bound_.chunks().RangeOf(slot).begin) *
             element_bytes_;
}

std::byte* ScheduleRun::MutableAddress(const Slot& slot) {
  if (slot.space == Space::kScratch) {
    return scratch_.mutable_data() + bound_.ScratchOffset(slot);
  }
  // The context owns the tensor, but this run may write its bytes.
  return const_cast<std::byte*>(context_->output.data()) +
         static_cast<size_t>(bound_.chunks().RangeOf(slot).begin) *
             element_bytes_;
}

}  // namespace

struct ScheduleRunner::State {
  State(std::shared_ptr<const CompiledSchedule> schedule,
        const CollectiveParams& params)
      : bound(std::move(schedule), params),
        spares(params.group->resources->GetOrCreate<SpareBytes>(),
               ScheduleRun::NumSpareBytes(bound)) {}

  const BoundSchedule bound;
  SpareObjects<ScheduleRun> spares;
};

ScheduleRunner::ScheduleRunner(std::shared_ptr<const CompiledSchedule> schedule,
                               const CollectiveParams& params)
    : state_(std::make_unique<State>(std::move(schedule), params)) {}

ScheduleRunner::~ScheduleRunner() = default;

void ScheduleRunner::Run(const CollectiveContext& context,
                         StatusCallback done) const {
  std::unique_ptr<ScheduleRun> run = state_->spares.Take();
  if (run == nullptr) {
    run = std::make_unique<ScheduleRun>(state_->bound, state_->spares);
  }
  ScheduleRun::Start(std::move(run), context, std::move(done));
}

}  // namespace tutti
