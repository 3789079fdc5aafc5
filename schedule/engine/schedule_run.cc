#include "schedule/engine/schedule_run.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "tutti/executor.h"

namespace tutti {
namespace {

using Incoming = CompiledSchedule::Incoming;

// Returns true if the work queue receives any chunk.
bool ReceivesLarge(const BoundSchedule& bound) {
  return absl::c_any_of(
      bound.schedule().ops(), [&](const CompiledSchedule::Op& op) {
        return op.kind == StepKind::kRecv &&
               static_cast<size_t>(bound.chunks().RangeOf(op.into).size) *
                       SizeOf(bound.dtype()) >
                   kInlineBytes;
      });
}

}  // namespace

ScheduleRun::ScheduleRun(const BoundSchedule& bound, Spares& spares)
    : bound_(bound),
      spares_(spares),
      schedule_(bound.schedule()),
      ops_(schedule_.ops()),
      dtype_(bound.dtype()),
      buffers_(bound),
      waits_(ops_),
      handed_over_(ReceivesLarge(bound)
                       ? std::make_unique<Delivery[]>(ops_.size())
                       : nullptr) {}

size_t ScheduleRun::NumSpareBytes(const BoundSchedule& bound) {
  const size_t num_ops = bound.schedule().ops().size();
  size_t num_bytes = sizeof(ScheduleRun) + OpWaits::NumOuterBytes(num_ops) +
                     RunBuffers::NumKeptBytes(bound);
  if (ReceivesLarge(bound)) num_bytes += num_ops * sizeof(Delivery);
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
  if (status.ok()) status = run->buffers_.Open(context, run->is_on_host_);
  if (!status.ok()) {
    run->Fail(std::move(status));
    Ready::Add(run, kStart);
    return Ready::RunAll();
  }
  run->waits_.Reset();
  for (const int32_t root : run->schedule_.roots()) {
    run->num_under_way_.fetch_add(1, std::memory_order_relaxed);
    Ready::Add(run, root);
  }
  Ready::Add(run, kStart);
  Ready::RunAll();
}

absl::Status ScheduleRun::OpenSteps() {
  if (is_on_host_ || IsBarrier(*context_)) return absl::OkStatus();
  ASSIGN_OR_RETURN(
      std::unique_ptr<StepStream> steps,
      context_->device->OpenSteps(*context_->executor->environment().clock));
  if (steps == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(context_->device->full_name(), " runs no steps"));
  }
  stream_.emplace(std::move(steps), ops_.size());
  return absl::OkStatus();
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
      if (!waits_.CountDown(dependent)) continue;
      if (++num_ready > 1) {
        num_under_way_.fetch_add(1, std::memory_order_relaxed);
      }
      Ready::Add(this, dependent);
    }
  }
  if (num_ready == 0) EndOne();
}

void ScheduleRun::EndOne() {
  if (!stream_.has_value()) {
    if (num_under_way_.fetch_sub(1, std::memory_order_acq_rel) == 1) End();
    return;
  }
  switch (stream_->CountEnd(num_under_way_)) {
    case RunStream::Next::kWait:
      return;
    case RunStream::Next::kEndStream:
      return EndStream();
    case RunStream::Next::kEnd:
      return End();
  }
}

void ScheduleRun::EndStream() {
  stream_->steps().CallWhenOver([this](absl::Status status) {
    // A cancellation in the meantime also fails the run, though all steps have
    // run.
    if (!status.ok()) Fail(std::move(status));
    ShouldStop();
    stream_->ReleaseUnmarked(status_);
    EndOne();
  });
}

void ScheduleRun::End() {
  StatusCallback done = std::exchange(done_, nullptr);
  absl::Status status = std::exchange(status_, absl::OkStatus());
  buffers_.Close(stream_.has_value());
  stream_.reset();  // The device may be gone after `done`.
  context_ = nullptr;
  spares_.Keep(std::move(self_));  // Keeps or destroys this run.
  std::move(done)(std::move(status));
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
  const size_t num_bytes = buffers_.BytesOf(op.left);
  if (num_bytes == 0) {
    return skips_empty() ? Complete(index) : Post(index, {}, nullptr);
  }
  const absl::Span<const std::byte> bytes(buffers_.Address(op.left), num_bytes);
  if (!stream_.has_value()) return Post(index, bytes, nullptr);
  if (IsInThisProcess(op.peer)) return SendWithFence(index, bytes);
  auto copy = stream_->LandToSend(num_bytes, context_->executor->peers());
  if (copy == nullptr) return SendFromHost(index, bytes);
  SendFromDevice(index, bytes, std::move(copy));
}

void ScheduleRun::SendWithFence(int32_t index,
                                absl::Span<const std::byte> bytes) {
  const auto written = stream_->PostFence(index);
  if (!written.ok()) {
    Fail(written.status());
    return Complete(index);
  }
  Post(index, bytes, *written);
}

// Copies the bytes to a landing and posts it. The reader bypasses the stream
// and can open only landings, not tensors. The stream also holds the landing
// until the copy is made, so that its memory is not reused before.
void ScheduleRun::SendFromDevice(int32_t index,
                                 absl::Span<const std::byte> bytes,
                                 std::shared_ptr<DeviceLanding> copy) {
  StepStream& steps = stream_->steps();
  std::byte* const into = copy->bytes().data();
  stream_->KeepOnDevice(index, copy);
  absl::Status status =
      steps.ReadLanding(std::move(copy), [&](const std::byte* /*bytes*/) {
        return steps.Copy(into, bytes.data(), bytes.size());
      });
  if (!status.ok()) return OnReleased(index, std::move(status));
  steps.CallWhenWritten([this, index](absl::Status status) {
    if (!status.ok() || ShouldStop()) {
      return OnReleased(index, std::move(status));
    }
    Post(index, stream_->on_device(index).bytes(), nullptr);
    Ready::RunAll();
  });
}

// Copies the bytes to the host and posts the copy. `bytes` may be overwritten
// when the send completes, with no wait for the copy.
void ScheduleRun::SendFromHost(int32_t index,
                               absl::Span<const std::byte> bytes) {
  stream_->steps().CopyToHost(
      bytes, [this, index](absl::StatusOr<Tensor> copy) {
        if (copy.ok() && !ShouldStop()) {
          const Tensor& lent = stream_->KeepOnHost(index, *std::move(copy));
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
                                          .sender = this,
                                          .id = index,
                                          .written = written});
}

void ScheduleRun::OnReleased(int32_t index, absl::Status status) {
  if (stream_.has_value()) stream_->TakeBack(index);
  CompleteSend(index, std::move(status));
}

// If the end of the stream is already in place, the wait comes after it. The
// wait then only orders the release of memory after the read.
void ScheduleRun::OnReleasedAfter(int32_t index, const DeviceFence& read) {
  stream_->TakeBack(index);
  CompleteSend(index, stream_->steps().WaitFor(read));
}

void ScheduleRun::CompleteSend(int32_t index, absl::Status status) {
  if (!status.ok()) Fail(std::move(status));
  Complete(index);
  Ready::RunAll();
}

void ScheduleRun::Recv(int32_t index) {
  const Op& op = OpAt(index);
  const size_t num_bytes = buffers_.BytesOf(op.into);
  if (num_bytes == 0 && skips_empty()) return Complete(index);
  const CollGroupMember& peer = MemberOf(op.peer);
  const bool is_copy_on_host =
      op.incoming == Incoming::kNone && !stream_.has_value() && num_bytes > 0;
  context_->executor->peers().RecvFromPeer(
      peer, KeyOf(op, op.peer, context_->rank()),
      {.num_bytes = num_bytes,
       .dtype = dtype_,
       .incarnation = peer.device.incarnation,
       .receiver = this,
       .id = index,
       .into = is_copy_on_host
                   ? absl::MakeSpan(buffers_.MutableAddress(op.into), num_bytes)
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
  if (!stream_.has_value() || ShouldStop()) return nullptr;
  return stream_->steps().Land(num_bytes);
}

absl::Status ScheduleRun::OnLanded(int32_t index, size_t offset,
                                   std::shared_ptr<DeviceLanding> part) {
  if (ShouldStop()) return context_->execution->cancellation.status();
  const size_t num_bytes = part->bytes().size();
  return stream_->steps().ReadLanding(
      std::move(part), [&](const std::byte* bytes) {
        return Take(OpAt(index), offset, bytes, num_bytes);
      });
}

absl::Status ScheduleRun::TakeFromHost(const Op& op, size_t offset,
                                       absl::Span<const std::byte> incoming) {
  if (!stream_.has_value()) {
    return Take(op, offset, incoming.data(), incoming.size());
  }
  return stream_->steps().ReadHost(incoming, [&](const std::byte* bytes) {
    return Take(op, offset, bytes, incoming.size());
  });
}

// Copies or reduces the peer's bytes into their place.
absl::Status ScheduleRun::Take(const Op& op, size_t offset,
                               const std::byte* incoming, size_t num_bytes) {
  const auto num_elements =
      static_cast<int64_t>(num_bytes / buffers_.element_bytes());
  std::byte* const into = buffers_.MutableAddress(op.into) + offset;
  if (op.incoming == Incoming::kNone) {
    return Work().Copy(into, incoming, num_elements, op.finish);
  }
  const bool is_left = op.incoming == Incoming::kLeft;
  const std::byte* const own =
      buffers_.Address(is_left ? op.right : op.left) + offset;
  const std::byte* const operands[] = {is_left ? incoming : own,
                                       is_left ? own : incoming};
  return Work().Merge(operands, into, num_elements, op.finish);
}

// Reads the delivery and releases it. Deliveries that came in parts and empty
// chunks have nothing left to read.
void ScheduleRun::Consume(int32_t index, Delivery delivery) {
  absl::Status status;
  if (delivery.sender != nullptr && !delivery.bytes.empty()) {
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
  StepStream& steps = stream_->steps();
  absl::Status status = steps.ReadPeer(
      delivery.bytes, *delivery.written, [&](const std::byte* bytes) {
        return Take(OpAt(index), /*offset=*/0, bytes, delivery.bytes.size());
      });
  auto read = steps.Mark();
  status.Update(read.status());
  if (!status.ok()) Fail(status);
  if (read.ok()) {
    delivery.sender->OnReleasedAfter(delivery.id, **read);
  } else {
    stream_->AddUnmarked(delivery);
  }
  read = absl::CancelledError();  // Frees the fence: the run may end.
  Complete(index);
  Ready::RunAll();
}

void ScheduleRun::Compute(int32_t index) {
  const Op& op = OpAt(index);
  const size_t num_bytes = buffers_.BytesOf(op.into);
  const auto run = [this, index] {
    absl::Status status = ComputeNow(OpAt(index));
    if (!status.ok()) Fail(std::move(status));
    Complete(index);
    Ready::RunAll();
  };
  if (stream_.has_value() || num_bytes <= kInlineBytes) return run();
  context_->executor->environment().queue->Schedule(run);
}

absl::Status ScheduleRun::ComputeNow(const Op& op) {
  const int64_t num_elements = buffers_.ElementsOf(op.into);
  if (num_elements == 0) return absl::OkStatus();
  std::byte* const into = buffers_.MutableAddress(op.into);
  const std::byte* const left = buffers_.Address(op.left);
  if (op.kind == StepKind::kCopy) {
    return Work().Copy(into, left, num_elements, op.finish);
  }
  absl::InlinedVector<const std::byte*, ElementWork::kInlineOperands> operands =
      {left, buffers_.Address(op.right)};
  for (const Slot& slot : schedule_.more(op)) {
    operands.push_back(buffers_.Address(slot));
  }
  return Work().Merge(operands, into, num_elements, op.finish);
}

}  // namespace tutti
