#ifndef TUTTI_GPU_PASSES_GPU_MEETING_H_
#define TUTTI_GPU_PASSES_GPU_MEETING_H_

#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/executor/local_meeting.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"

namespace tutti {

// A LocalMeeting whose members bring events. A member's event is done when its
// buffers can be used. Thread-safe.
class GpuMeeting {
 public:
  explicit GpuMeeting(Cancellation& cancellation) : meeting_(cancellation) {}
  GpuMeeting(const GpuMeeting&) = delete;
  GpuMeeting& operator=(const GpuMeeting&) = delete;

  // Same as LocalMeeting::Join(). Destroys `ready` before `done` runs.
  absl::Span<const Attendee> Join(const CollectiveContext& context,
                                  OwnedGpuEvent ready, StatusCallback done)
      ABSL_LOCKS_EXCLUDED(mu_) {
    {
      MutexLock lock(&mu_);
      ready_[context.rank()] = ready.get();
    }
    return meeting_.Join(context,
                         [ready = std::move(ready),
                          done = std::move(done)](absl::Status status) mutable {
                           ready = OwnedGpuEvent();
                           std::move(done)(std::move(status));
                         });
  }

  // Takes the events of all members in rank order, valid until Adjourn().
  // Called once, by the last member to arrive.
  std::vector<GpuEvent> TakeReady() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    std::vector<GpuEvent> ready;
    for (const auto& [rank, event] : ready_) ready.push_back(event);
    ready_.clear();
    return ready;
  }

  // Same as LocalMeeting::Adjourn().
  void Adjourn(absl::Status status) { meeting_.Adjourn(std::move(status)); }

 private:
  LocalMeeting meeting_;
  Mutex mu_;
  // Events of the arrived members. After a failure the events may be gone; then
  // nobody takes them.
  std::map<int, GpuEvent> ready_ ABSL_GUARDED_BY(mu_);  // Keyed by rank.
};

}  // namespace tutti

#endif  // TUTTI_GPU_PASSES_GPU_MEETING_H_
