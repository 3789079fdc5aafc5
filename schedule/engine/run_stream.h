#ifndef TUTTI_SCHEDULE_ENGINE_RUN_STREAM_H_
#define TUTTI_SCHEDULE_ENGINE_RUN_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/mutex.h"
#include "tutti/device.h"
#include "tutti/peer_access.h"
#include "tutti/tensor.h"

namespace tutti {

// State of a run whose steps are on a device's stream: bytes that the sends
// post, deliveries that the stream may still read, and the stream's end.
//
// Thread-safe, except that the calls for one op come one after the other.
class RunStream {
 public:
  RunStream(std::unique_ptr<StepStream> steps, size_t num_ops);
  RunStream(const RunStream&) = delete;
  RunStream& operator=(const RunStream&) = delete;

  StepStream& steps() const { return *steps_; }

  // Returns a fence behind the steps enqueued so far, for a send to a member of
  // this process. The fence is valid until TakeBack(), which is then due.
  absl::StatusOr<const DeviceFence*> PostFence(int32_t index)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns memory for a send from the device, or null if the host sends.
  std::shared_ptr<DeviceLanding> LandToSend(size_t num_bytes,
                                            const PeerAccessInterface& peers);

  // Keep the copy that a send to another process posts, until TakeBack().
  void KeepOnDevice(int32_t index, std::shared_ptr<DeviceLanding> copy) {
    on_device_[static_cast<size_t>(index)] = std::move(copy);
  }
  const Tensor& KeepOnHost(int32_t index, Tensor copy) {
    return on_host_[static_cast<size_t>(index)] = std::move(copy);
  }
  DeviceLanding& on_device(int32_t index) const {
    return *on_device_[static_cast<size_t>(index)];
  }

  // Ends the post of the op's bytes. From now on the op may use the stream, or
  // fail.
  void TakeBack(int32_t index) ABSL_LOCKS_EXCLUDED(mu_);

  // Keeps a delivery that the stream may still read, because the end of the
  // read could not be marked. Released when the stream has ended.
  void AddUnmarked(const Delivery& delivery) ABSL_LOCKS_EXCLUDED(mu_);
  void ReleaseUnmarked(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  // Counts the end of an op in progress. The last op hands its place to the end
  // of the stream. After an error, the last op besides posted sends does the
  // same. Their peers may wait for deliveries that the run releases only at
  // that end.
  enum class Next { kWait, kEndStream, kEnd };
  Next CountEnd(std::atomic<int32_t>& num_under_way) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const std::unique_ptr<StepStream> steps_;

  // By op, while it sends: the fence of bytes for members of this process, and
  // the copies for other processes.
  std::vector<std::shared_ptr<const DeviceFence>> written_;
  std::vector<std::shared_ptr<DeviceLanding>> on_device_;
  std::vector<Tensor> on_host_;

  Mutex mu_;
  std::vector<Delivery> unmarked_ ABSL_GUARDED_BY(mu_);

  // Sends in progress to members of this process.
  int32_t num_loaned_ ABSL_GUARDED_BY(mu_) = 0;

  // True once the end of the stream has become an op in progress.
  bool is_ending_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tutti

#endif  // TUTTI_SCHEDULE_ENGINE_RUN_STREAM_H_
