#ifndef TUTTI_GPU_DEVICE_GPU_PASS_END_H_
#define TUTTI_GPU_DEVICE_GPU_PASS_END_H_

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// End of the work that an execution puts on a stream of a device. The stream
// may wait for events of other devices.
//
// Normally the stream calls the host when it has passed the end. It never does
// if a GPU is spoilt before. The object therefore also looks for the end every
// kLookEvery. The execution ends with the GPU's error at most that long after
// the runtime knows the error.
//
// Work that waits for a spoilt GPU may then still be on the streams of other
// GPUs; it does not run as long as they wait. Other errors of a look end
// nothing: the stream's work may still run.
//
// Thread-safe. Its callbacks keep it alive. The device is valid until
// CallWhenOver() returns, or `done` runs; the runtime and the awaited events
// until `done` runs; the clock for ever.
class GpuPassEnd : public std::enable_shared_from_this<GpuPassEnd> {
 public:
  static constexpr absl::Duration kLookEvery = DefaultTime("GPU look");

  // Errors: as GpuRuntime::CreateEvent.
  static absl::StatusOr<std::shared_ptr<GpuPassEnd>> Create(CudaDevice& device,
                                                            GpuStream stream,
                                                            Clock& clock);

  // Sets the end behind the present work of the stream. Errors: as
  // GpuRuntime::RecordEvent; the next look then sets the end.
  absl::Status Mark() ABSL_LOCKS_EXCLUDED(mu_);

  // Makes `stream`, of any device, wait for the end. REQUIRES: Mark() was OK.
  absl::Status OrderBefore(GpuStream stream) ABSL_LOCKS_EXCLUDED(mu_);

  // Call once, after Mark(). `awaited` are the events of other devices for
  // which the stream waits, or should wait, before the end. `done` runs as work
  // of the device's queue or on the clock's thread. Its status is OK when
  // stream and events have passed the end, else the error of the spoilt GPU.
  void CallWhenOver(std::vector<GpuEvent> awaited, StatusCallback done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // True if earlier work of the stream may still run after `done` got an error,
  // because another GPU is spoilt. Buffers of that work must not be reused.
  bool MayGoOn() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  GpuPassEnd(CudaDevice& device, GpuStream stream, Clock& clock,
             OwnedGpuEvent event);

  GpuStream SignalsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Look() ABSL_LOCKS_EXCLUDED(mu_);
  void LookLater() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<bool> IsOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Answer to a question about `gpu`; false if it cannot be told now. Errors:
  // final ones, after which no later call can answer.
  absl::StatusOr<bool> IsTrue(absl::StatusOr<bool> answer, int gpu) const;
  absl::Status MarkLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsPastOrSpoilt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  CudaDevice& device_;
  GpuRuntime& runtime_;  // Outlives the device.
  const GpuStream stream_;
  Clock& clock_;

  // Held while the runtime is called: nothing ends meanwhile.
  mutable Mutex mu_;
  OwnedGpuEvent event_ ABSL_GUARDED_BY(mu_);
  bool is_marked_ ABSL_GUARDED_BY(mu_) = false;
  bool is_past_ ABSL_GUARDED_BY(mu_) = false;  // Reported by the stream.
  bool may_go_on_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<GpuEvent> awaited_ ABSL_GUARDED_BY(mu_);
  StatusCallback done_ ABSL_GUARDED_BY(mu_);  // Null before and after.
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_GPU_DEVICE_GPU_PASS_END_H_
