#ifndef TUTTI_GPU_PASSES_GPU_MEETING_H_
#define TUTTI_GPU_PASSES_GPU_MEETING_H_

#include <cstddef>
#include <map>
#include <string>
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
#include "tutti/params.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {

// Errors: INVALID_ARGUMENT for a device that CreateCudaDevices() did not make.
absl::Status CheckIsCudaDevice(const CollectiveContext& context);

// Reason why kernels cannot run these ops (ImplementationTraits::why_not_ops):
// custom ops are launched pair by pair.
std::string WhyNotOnGpu(DType, const MergeOp& merge_op,
                        const FinalOp& final_op);

// REQUIRES: CheckIsCudaDevice() was OK.
CudaDevice& CudaDeviceOf(const CollectiveContext& context);

// Memory for the member's output. Null if it has no output or no elements.
std::byte* OutputOf(const CollectiveContext& context);

// Members of an execution that are on GPUs of this process. Places follow rank
// order: if all members are here, place and rank are equal.
class GpuMembers {
 public:
  // REQUIRES: `members` outlive this object.
  explicit GpuMembers(absl::Span<const Attendee> members) : members_(members) {}

  int size() const { return static_cast<int>(members_.size()); }
  const CollInstanceParams& instance() const {
    return *context(0).params->instance;
  }
  const CollectiveContext& context(int place) const {
    return *members_[static_cast<size_t>(place)].context;
  }
  CudaDevice& device(int place) const { return CudaDeviceOf(context(place)); }

  // Null if the member has none, or no elements.
  const std::byte* input(int place) const {
    return context(place).input.data();
  }
  std::byte* output(int place) const { return OutputOf(context(place)); }

 private:
  const absl::Span<const Attendee> members_;
};

// A LocalMeeting whose members bring events. A member's event is done when its
// buffers can be used. Thread-safe.
class GpuMeeting {
 public:
  explicit GpuMeeting(Cancellation& cancellation) : meeting_(cancellation) {}
  GpuMeeting(const GpuMeeting&) = delete;
  GpuMeeting& operator=(const GpuMeeting&) = delete;

  // Same as LocalMeeting::Join(), with an event behind the present work of the
  // member's compute stream. Destroys the event before `done` runs. Also calls
  // `done`, without a meeting, if there is no event.
  GpuMembers Join(const CollectiveContext& context, StatusCallback done)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Takes the events of all members in rank order, valid until Adjourn().
  // Called once, by the last member to arrive.
  std::vector<GpuEvent> TakeReady() ABSL_LOCKS_EXCLUDED(mu_);

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
