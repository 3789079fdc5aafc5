#include "gpu/device/gpu_pass_end.h"

#include <utility>

#include "framework/base/status_macros.h"

namespace tutti {

absl::StatusOr<std::shared_ptr<GpuPassEnd>> GpuPassEnd::Create(
    CudaDevice& device, GpuStream stream, Clock& clock) {
  ASSIGN_OR_RETURN(OwnedGpuEvent event,
                   NewEvent(device.runtime(), device.gpu()));
  // The constructor is private.
  return std::shared_ptr<GpuPassEnd>(
      new GpuPassEnd(device, stream, clock, std::move(event)));
}

GpuPassEnd::GpuPassEnd(CudaDevice& device, GpuStream stream, Clock& clock,
                       OwnedGpuEvent event)
    : device_(device),
      runtime_(device.runtime()),
      stream_(stream),
      clock_(clock),
      event_(std::move(event)) {}

absl::Status GpuPassEnd::Mark() {
  MutexLock lock(&mu_);
  return MarkLocked();
}

absl::Status GpuPassEnd::MarkLocked() {
  absl::Status status = runtime_.RecordEvent(event_.get(), stream_);
  is_marked_ = status.ok();
  return status;
}

absl::Status GpuPassEnd::OrderBefore(GpuStream stream) {
  MutexLock lock(&mu_);
  return runtime_.WaitForEvent(stream, event_.get());
}

void GpuPassEnd::CallWhenOver(std::vector<GpuEvent> awaited,
                              StatusCallback done) {
  // Keeps this object: `done` may run before this function returns, and drop
  // the last owner.
  const auto self = shared_from_this();
  GpuStream signals;
  {
    MutexLock lock(&mu_);
    awaited_ = std::move(awaited);
    done_ = std::move(done);
    signals = SignalsLocked();
  }
  // The callback also receives this call's error.
  device_
      .NotifyWhenDone(signals,
                      [self](const absl::Status& status) {
                        if (status.ok()) {
                          MutexLock lock(&self->mu_);
                          self->is_past_ = true;
                        }
                        self->Look();
                      })
      .IgnoreError();
  // Locked only now: the device may be destroyed by `done`.
  MutexLock lock(&mu_);
  if (done_ != nullptr) LookLater();
}

// Without an event to wait for, the stream calls the host directly.
GpuStream GpuPassEnd::SignalsLocked() {
  const GpuStream signals = device_.SignalsOf(stream_);
  if (signals == stream_ || !is_marked_) return stream_;
  const absl::Status status = runtime_.WaitForEvent(signals, event_.get());
  return status.ok() ? signals : stream_;
}

void GpuPassEnd::Look() {
  absl::StatusOr<bool> is_over;
  {
    MutexLock lock(&mu_);
    if (done_ == nullptr) return;
    is_over = IsOver();
    if (is_over.ok() && !*is_over) return LookLater();
  }
  End(is_over.status());
}

void GpuPassEnd::LookLater() {
  clock_.Cancel(alarm_);
  alarm_ = clock_.CallAt(clock_.Now() + kLookEvery,
                         [self = shared_from_this()] { self->Look(); });
}

absl::StatusOr<bool> GpuPassEnd::IsOver() {
  bool is_over = true;
  // An error of any event takes precedence over an event that is not done.
  for (const GpuEvent event : awaited_) {
    const absl::StatusOr<bool> is_done =
        IsTrue(runtime_.IsDone(event), event.gpu);
    if (!is_done.ok()) return is_done;
    is_over &= *is_done;
  }
  if (is_past_) return is_over;
  if (!is_marked_) {
    const absl::Status status = MarkLocked();
    if (!status.ok()) return IsTrue(status, stream_.gpu);
  }
  const absl::StatusOr<bool> is_past =
      IsTrue(runtime_.IsDone(event_.get()), stream_.gpu);
  if (!is_past.ok()) return is_past;
  return is_over && *is_past;
}

// INVALID_ARGUMENT is final: the handle is unknown, e.g. because the process
// has reset the GPU.
absl::StatusOr<bool> GpuPassEnd::IsTrue(absl::StatusOr<bool> answer,
                                        int gpu) const {
  if (answer.ok() || absl::IsInvalidArgument(answer.status())) return answer;
  if (!runtime_.FirstError(gpu).ok()) return answer;
  return false;
}

void GpuPassEnd::End(absl::Status status) {
  StatusCallback done;
  {
    MutexLock lock(&mu_);
    if (done_ == nullptr) return;
    done = std::exchange(done_, nullptr);
    clock_.Cancel(alarm_);
    may_go_on_ = !status.ok() && !IsPastOrSpoilt();
    event_ = OwnedGpuEvent();
  }
  std::move(done)(std::move(status));
}

bool GpuPassEnd::IsPastOrSpoilt() {
  if (is_past_) return true;
  if (is_marked_ && runtime_.IsDone(event_.get()).value_or(false)) return true;
  return !runtime_.FirstError(stream_.gpu).ok();
}

bool GpuPassEnd::MayGoOn() const {
  MutexLock lock(&mu_);
  return may_go_on_;
}

}  // namespace tutti
