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

// The end of what one execution puts on a stream of a device, which waits
// there for events of other devices.
//
// Normally the stream calls the host when it is past the end. It never does
// where a GPU is spoilt before, so the end is also looked for every
// kLookEvery: that long after the runtime knows of the error, at most, the
// execution ends with it. What waits for a GPU that is spoilt may still be on
// the streams of others then, and does not run as long as they wait. Other
// errors of a look end nothing: what is on the stream may run all the same.
//
// Thread-safe. Its own callbacks keep it; the device, its runtime and the
// awaited events are valid until `done` runs, the clock for ever.
class GpuPassEnd : public std::enable_shared_from_this<GpuPassEnd> {
 public:
  static constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

  // Errors: as GpuRuntime::CreateEvent.
  static absl::StatusOr<std::shared_ptr<GpuPassEnd>> Create(CudaDevice& device,
                                                            GpuStream stream,
                                                            Clock& clock);

  // The end is here: after what the stream holds now. Errors: as
  // GpuRuntime::RecordEvent; it is then set when it is next looked for.
  absl::Status Mark() ABSL_LOCKS_EXCLUDED(mu_);

  // Makes `stream`, of any device, wait for the end. REQUIRES: Mark() was OK.
  absl::Status OrderBefore(GpuStream stream) ABSL_LOCKS_EXCLUDED(mu_);

  // Once, after Mark(). `awaited` are events of other devices for which the
  // stream waits, or should, before the end. `done` runs as work of the
  // device's queue or on the thread of the clock: with OK when the stream is
  // past the end and they are done, else with the error of the GPU that is
  // spoilt.
  void CallWhenOver(std::vector<GpuEvent> awaited, StatusCallback done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // For `done`, which got an error: whether what the stream held before the end
  // may still run, because it is another GPU that is spoilt. Nobody else must
  // get what it uses.
  bool MayGoOn() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  GpuPassEnd(CudaDevice& device, GpuStream stream, Clock& clock,
             OwnedGpuEvent event);

  GpuStream SignalsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Look() ABSL_LOCKS_EXCLUDED(mu_);
  void LookLater() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<bool> IsOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Of a call for `gpu`, as far as can be told now. Errors: those after which
  // none will tell more.
  absl::StatusOr<bool> IsTrue(absl::StatusOr<bool> answer, int gpu) const;
  absl::Status MarkLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsPastOrSpoilt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void End(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  CudaDevice& device_;
  const GpuStream stream_;
  Clock& clock_;

  // Held while the runtime is asked, so that nothing ends meanwhile.
  mutable Mutex mu_;
  OwnedGpuEvent event_ ABSL_GUARDED_BY(mu_);
  bool is_marked_ ABSL_GUARDED_BY(mu_) = false;
  bool is_past_ ABSL_GUARDED_BY(mu_) = false;  // As the stream has said.
  bool may_go_on_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<GpuEvent> awaited_ ABSL_GUARDED_BY(mu_);
  StatusCallback done_ ABSL_GUARDED_BY(mu_);  // Null before and after.
  Clock::AlarmId alarm_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti

#endif  // TUTTI_GPU_DEVICE_GPU_PASS_END_H_
