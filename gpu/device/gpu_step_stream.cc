#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/runtime/gpu_launch.h"
#include "gpu/runtime/pinned_pool.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Awaited events, by number of the GPU.
using GpuEvents = std::map<int, std::shared_ptr<const OwnedGpuEvent>>;

// A point on a stream of a device. Immutable. The device outlives the fence.
class GpuFence : public DeviceFence {
 public:
  // `awaited` are the events for which the stream waits before that point.
  GpuFence(const CudaDevice& device, OwnedGpuEvent event, GpuEvents awaited)
      : device_(device),
        event_(std::make_shared<const OwnedGpuEvent>(std::move(event))),
        awaited_(std::move(awaited)) {}

  const CudaDevice& device() const { return device_; }
  const std::shared_ptr<const OwnedGpuEvent>& event() const { return event_; }
  const GpuEvents& awaited() const { return awaited_; }

 private:
  const CudaDevice& device_;
  const std::shared_ptr<const OwnedGpuEvent> event_;
  const GpuEvents awaited_;
};

// Pinned memory of a GPU or of the host that steps read or write. Returns to
// its pool with its last owner.
class GpuLanding : public DeviceLanding {
 public:
  GpuLanding(PinnedPool::Buffer buffer, size_t num_bytes)
      : buffer_(std::move(buffer)), num_bytes_(num_bytes) {}

  absl::Span<std::byte> bytes() const override {
    return {buffer_.data(), num_bytes_};
  }

  // See PinnedPool::Buffer.
  void Abandon() { buffer_.Abandon(); }

 private:
  PinnedPool::Buffer buffer_;
  const size_t num_bytes_;
};

using OwnedEvents = std::vector<std::shared_ptr<const OwnedGpuEvent>>;

OwnedEvents Owned(const GpuEvents& events) {
  OwnedEvents owned;
  for (const auto& [gpu, event] : events) owned.push_back(event);
  return owned;
}

// Calls `done` when the end is over, with the end's error or else `status`.
// Keeps the awaited events until then, and not while `done` runs.
void CallWhenEndIsOver(GpuPassEnd& end, OwnedEvents awaited,
                       absl::Status status, StatusCallback done) {
  std::vector<GpuEvent> handles;
  handles.reserve(awaited.size());
  for (const auto& event : awaited) handles.push_back(event->get());
  end.CallWhenOver(std::move(handles),
                   [awaited = std::move(awaited), status = std::move(status),
                    done = std::move(done)](absl::Status ended) mutable {
                     awaited.clear();  // The device may be destroyed by `done`.
                     ended.Update(status);
                     std::move(done)(std::move(ended));
                   });
}

// Returns the buffer. Its users were on the stream before `end`, which has
// ended.
void GiveBack(std::shared_ptr<GpuLanding> buffer, const GpuPassEnd& end) {
  if (end.MayGoOn()) buffer->Abandon();
}

// Indices of the arrays in the device's memory. Errors: as
// Device::CopyToHost().
absl::StatusOr<std::vector<size_t>> ArraysOn(CudaDevice& device,
                                             absl::Span<const Tensor> arrays) {
  std::vector<size_t> found;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const Tensor& array = arrays[i];
    if (array.size_bytes() == 0) continue;
    ASSIGN_OR_RETURN(const TensorPlace place, device.PlaceOf(array));
    if (place == TensorPlace::kElsewhere) {
      return absl::InvalidArgumentError(absl::StrCat(
          "array ", i, " (", Name(array.dtype()), array.shape().ToString(),
          ") is in the memory of another device than ", device.full_name()));
    }
    if (place == TensorPlace::kDevice) found.push_back(i);
  }
  return found;
}

// Copies of arrays to pinned memory, on a device's copy stream.
class HostCopies {
 public:
  // Prepares to copy the arrays with these indices. Errors: as
  // PinnedPool::Take() and GpuPassEnd::Create().
  static absl::StatusOr<std::unique_ptr<HostCopies>> Prepare(
      CudaDevice& device, Clock& clock, std::vector<Tensor> arrays,
      const std::vector<size_t>& indices) {
    auto copies = std::make_unique<HostCopies>();
    for (const size_t i : indices) {
      const size_t num_bytes = arrays[i].size_bytes();
      ASSIGN_OR_RETURN(PinnedPool::Buffer buffer,
                       device.staging()->Take(num_bytes));
      copies->into_.push_back(
          {i, std::make_shared<GpuLanding>(std::move(buffer), num_bytes)});
    }
    ASSIGN_OR_RETURN(copies->end_,
                     GpuPassEnd::Create(device, device.copy_stream(), clock));
    copies->arrays_ = std::move(arrays);
    return copies;
  }

  // Puts the copies on the copy stream, behind the present work of `first`.
  absl::Status Put(CudaDevice& device, GpuStream first) {
    const GpuStream stream = device.copy_stream();
    RETURN_IF_ERROR(device.Order(first, stream));
    for (const auto& [i, into] : into_) {
      RETURN_IF_ERROR(device.runtime().CopyAsync(into->bytes().data(),
                                                 arrays_[i].data(),
                                                 into->bytes().size(), stream));
    }
    return end_->Mark();
  }

  // Calls `done` with the arrays in host memory once they are copied. Waits
  // also after an error, of Put(): copies may be on the stream.
  static void CallWhenOver(std::unique_ptr<HostCopies> copies,
                           OwnedEvents awaited, absl::Status put,
                           Device::ArraysCallback done) {
    GpuPassEnd& end = *copies->end_;
    CallWhenEndIsOver(end, std::move(awaited), std::move(put),
                      [copies = std::move(copies),
                       done = std::move(done)](absl::Status ended) mutable {
                        auto arrays = copies->TakeCopies(std::move(ended));
                        copies =
                            nullptr;  // The device may be destroyed by `done`.
                        std::move(done)(std::move(arrays));
                      });
  }

 private:
  struct Copy {
    size_t index = 0;
    std::shared_ptr<GpuLanding> into;
  };

  absl::StatusOr<std::vector<Tensor>> TakeCopies(absl::Status ended) {
    for (auto& [i, into] : into_) {
      if (!ended.ok()) {
        GiveBack(std::move(into), *end_);
        continue;
      }
      std::byte* const bytes = into->bytes().data();
      arrays_[i] = *Tensor::Wrap(arrays_[i].dtype(), arrays_[i].shape(), bytes,
                                 [into = std::move(into)] {});
    }
    if (!ended.ok()) return ended;
    return std::move(arrays_);
  }

  std::vector<Tensor> arrays_;
  std::vector<Copy> into_;
  std::shared_ptr<GpuPassEnd> end_;
};

// Steps on a device's collective stream. Kernels read the memory of reachable
// devices in place, and bytes of the host from pinned memory. Copies to the
// host run on the copy stream: kernels do not wait for the bus.
//
// A spoilt GPU for which the stream waits, directly or through other GPUs, ends
// the stream with that GPU's error (GpuPassEnd).
class GpuStepStream : public StepStream {
 public:
  // `end` is on the device's collective stream. This stream already waits for
  // the first inputs of the steps.
  GpuStepStream(CudaDevice& device, Clock& clock,
                std::shared_ptr<GpuPassEnd> end)
      : device_(device), clock_(clock), end_(std::move(end)) {}

  absl::Status Copy(std::byte* into, const std::byte* from,
                    size_t num_bytes) override {
    return device_.runtime().LaunchCopy(
        {.input = from, .outputs = {into}, .num_bytes = num_bytes},
        device_.collective_stream());
  }

  absl::Status Reduce(const StepReduction& reduction) override {
    StepReduction rest = reduction;
    const std::byte* const merged = reduction.into;
    if (reduction.custom_merge_op != nullptr && reduction.operands.size() > 1) {
      RETURN_IF_ERROR(MergeInPairs(reduction));
      rest.operands = absl::MakeConstSpan(&merged, 1);
    }
    RETURN_IF_ERROR(ReduceBuiltIn(rest));
    if (reduction.custom_final_op == nullptr) return absl::OkStatus();
    return device_.runtime().CallOn(device_.gpu(), [&] {
      return reduction.custom_final_op->ApplyOnGpu(
          reduction.dtype, reduction.into, reduction.num_elements,
          reduction.group_size, device_.collective_stream().handle);
    });
  }

  // Frees the scratch on the stream, after the last launch.
  absl::Status ReduceBuiltIn(const StepReduction& reduction) {
    const bool is_custom = reduction.custom_merge_op != nullptr ||
                           reduction.custom_final_op != nullptr;
    const bool divides =
        reduction.divisor != 1 && reduction.dtype != DType::kBool;
    if (is_custom && reduction.operands.size() == 1 && !divides) {
      if (reduction.into == reduction.operands[0]) return absl::OkStatus();
      return Copy(reduction.into, reduction.operands[0],
                  static_cast<size_t>(reduction.num_elements) *
                      SizeOf(reduction.dtype));
    }
    const GpuReduction whole = {
        .kind = reduction.kind,
        .dtype = reduction.dtype,
        .inputs = std::vector<const void*>(reduction.operands.begin(),
                                           reduction.operands.end()),
        .outputs = {reduction.into},
        .num_elements = static_cast<size_t>(reduction.num_elements),
        .divisor = reduction.divisor};
    Tensor scratch;
    if (NeedsScratch(whole)) {
      ASSIGN_OR_RETURN(
          scratch,
          device_.Allocate(reduction.dtype,
                           TensorShape::Vector(reduction.num_elements)));
    }
    return LaunchInOrder(device_.runtime(),
                         SplitReduction(whole, scratch.mutable_data()),
                         device_.collective_stream());
  }

  // Launches the caller's op for one operand after the other. `into` may be a
  // later operand, so intermediate results go to a scratch.
  absl::Status MergeInPairs(const StepReduction& reduction) {
    Tensor scratch;
    if (reduction.operands.size() > 2) {
      ASSIGN_OR_RETURN(
          scratch,
          device_.Allocate(reduction.dtype,
                           TensorShape::Vector(reduction.num_elements)));
    }
    return device_.runtime().CallOn(device_.gpu(), [&] {
      const std::byte* left = reduction.operands[0];
      for (size_t i = 1; i < reduction.operands.size(); ++i) {
        const bool is_last = i + 1 == reduction.operands.size();
        std::byte* const into =
            is_last ? reduction.into : scratch.mutable_data();
        RETURN_IF_ERROR(reduction.custom_merge_op->ApplyOnGpu(
            reduction.dtype, left, reduction.operands[i], into,
            reduction.num_elements, device_.collective_stream().handle));
        left = into;
      }
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::shared_ptr<const DeviceFence>> Mark() override {
    ASSIGN_OR_RETURN(OwnedGpuEvent event,
                     device_.Mark(device_.collective_stream()));
    return std::make_shared<const GpuFence>(device_, std::move(event),
                                            Awaited());
  }

  absl::Status WaitFor(const DeviceFence& fence) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    const auto* const of_gpu = dynamic_cast<const GpuFence*>(&fence);
    if (of_gpu == nullptr ||
        &of_gpu->device().runtime() != &device_.runtime()) {
      return absl::FailedPreconditionError(absl::StrCat(
          device_.full_name(), " cannot wait for a device of another runtime"));
    }
    const absl::Status status = device_.runtime().WaitForEvent(
        device_.collective_stream(), of_gpu->event()->get());
    MutexLock lock(&mu_);
    for (const auto& [gpu, event] : of_gpu->awaited()) awaited_[gpu] = event;
    awaited_[of_gpu->device().gpu()] = of_gpu->event();
    if (!status.ok()) missed_.push_back(of_gpu->event());
    return status;
  }

  absl::Status ReadPeer(absl::Span<const std::byte> bytes,
                        const DeviceFence& written, Put put) override {
    RETURN_IF_ERROR(WaitFor(written));
    if (device_.Reaches(static_cast<const GpuFence&>(written).device())) {
      return put(bytes.data());
    }
    ASSIGN_OR_RETURN(Tensor copy,
                     device_.Allocate(DType::kUint8,
                                      TensorShape::Vector(
                                          static_cast<int64_t>(bytes.size()))));
    absl::Status status =
        device_.runtime().CopyAsync(copy.mutable_data(), bytes.data(),
                                    bytes.size(), device_.collective_stream());
    return status.ok() ? put(copy.data()) : status;
  }

  // Errors: as PinnedPool::Take().
  absl::Status ReadHost(absl::Span<const std::byte> bytes, Put put) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    Reclaim();
    ASSIGN_OR_RETURN(PinnedPool::Buffer buffer,
                     device_.staging()->Take(bytes.size()));
    std::memcpy(buffer.data(), bytes.data(), bytes.size());
    return PutRead(
        std::make_shared<GpuLanding>(std::move(buffer), bytes.size()), put);
  }

  bool opens_memory() const override { return device_.landing() != nullptr; }

  // Returns null also if the GPU has no memory left, or too much of it is
  // posted or unread. The caller then uses host memory.
  std::shared_ptr<DeviceLanding> Land(size_t num_bytes) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    if (!opens_memory()) return nullptr;
    Reclaim();
    absl::StatusOr<PinnedPool::Buffer> buffer =
        device_.landing()->Take(num_bytes);
    if (!buffer.ok()) return nullptr;
    return std::make_shared<GpuLanding>(*std::move(buffer), num_bytes);
  }

  absl::Status ReadLanding(std::shared_ptr<DeviceLanding> landing,
                           Put put) override ABSL_LOCKS_EXCLUDED(mu_) {
    return PutRead(std::static_pointer_cast<GpuLanding>(std::move(landing)),
                   put);
  }

  void CallWhenWritten(StatusCallback done) override ABSL_LOCKS_EXCLUDED(mu_) {
    const auto end =
        GpuPassEnd::Create(device_, device_.collective_stream(), clock_);
    if (!end.ok()) return std::move(done)(end.status());
    absl::Status status = (*end)->Mark();
    OwnedEvents awaited = Owned(Awaited());
    CallWhenEndIsOver(**end, std::move(awaited), std::move(status),
                      std::move(done));
  }

  void CopyToHost(absl::Span<const std::byte> bytes,
                  HostCallback done) override {
    Tensor array = *Tensor::Wrap(
        DType::kUint8, TensorShape::Vector(static_cast<int64_t>(bytes.size())),
        const_cast<std::byte*>(bytes.data()));
    auto copies = HostCopies::Prepare(device_, clock_, {std::move(array)}, {0});
    if (!copies.ok()) return std::move(done)(copies.status());
    absl::Status put = (*copies)->Put(device_, device_.collective_stream());
    OwnedEvents awaited = Owned(Awaited());
    HostCopies::CallWhenOver(*std::move(copies), std::move(awaited),
                             std::move(put),
                             [done = std::move(done)](auto arrays) mutable {
                               if (!arrays.ok())
                                 return std::move(done)(arrays.status());
                               std::move(done)(std::move((*arrays)[0]));
                             });
  }

  void CallWhenOver(StatusCallback done) override ABSL_LOCKS_EXCLUDED(mu_) {
    // Copied: a later wait may replace events in `awaited_`.
    OwnedEvents awaited = Owned(Awaited());
    {
      MutexLock lock(&mu_);
      awaited.insert(awaited.begin(), missed_.begin(), missed_.end());
    }
    // After an error, the next look marks the end.
    end_->Mark().IgnoreError();
    CallWhenEndIsOver(
        *end_, std::move(awaited), absl::OkStatus(),
        [this, done = std::move(done)](absl::Status status) mutable {
          if (end_->MayGoOn()) Reclaim();
          std::deque<Read> reads;
          {
            MutexLock lock(&mu_);
            reads.swap(reads_);
          }
          // Freed before `done`, which may destroy the device.
          for (Read& read : reads) GiveBack(std::move(read.buffer), *end_);
          reads.clear();
          std::move(done)(std::move(status));
        });
  }

 private:
  // A buffer, and the event after its last reader. Null: the end of the stream.
  struct Read {
    std::shared_ptr<const OwnedGpuEvent> over;
    std::shared_ptr<GpuLanding> buffer;
  };

  absl::Status PutRead(std::shared_ptr<GpuLanding> buffer, Put put)
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::Status status = put(buffer->bytes().data());
    absl::StatusOr<OwnedGpuEvent> over =
        device_.Mark(device_.collective_stream());
    status.Update(over.status());
    Read read = {.over = over.ok() ? std::make_shared<const OwnedGpuEvent>(
                                         *std::move(over))
                                   : nullptr,
                 .buffer = std::move(buffer)};
    MutexLock lock(&mu_);
    reads_.push_back(std::move(read));
    return status;
  }

  // Returns the buffers that have been read to their pool.
  void Reclaim() ABSL_LOCKS_EXCLUDED(mu_) {
    while (true) {
      std::optional<Read> first;  // Destroyed without the lock.
      MutexLock lock(&mu_);
      if (reads_.empty() || reads_.front().over == nullptr) return;
      const absl::StatusOr<bool> is_over =
          device_.runtime().IsDone(reads_.front().over->get());
      if (!is_over.ok() || !*is_over) return;
      first.emplace(std::move(reads_.front()));
      reads_.pop_front();
    }
  }

  GpuEvents Awaited() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return awaited_;
  }

  CudaDevice& device_;
  Clock& clock_;
  const std::shared_ptr<GpuPassEnd> end_;

  mutable Mutex mu_;
  GpuEvents awaited_ ABSL_GUARDED_BY(mu_);
  std::deque<Read> reads_ ABSL_GUARDED_BY(mu_);

  // Events for which the wait call failed.
  OwnedEvents missed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

void CudaDevice::CopyToHost(std::vector<Tensor> arrays, ArraysCallback done) {
  const auto indices = ArraysOn(*this, arrays);
  if (!indices.ok()) return std::move(done)(indices.status());
  if (indices->empty()) return std::move(done)(std::move(arrays));
  auto copies = HostCopies::Prepare(*this, *environment_.clock,
                                    std::move(arrays), *indices);
  if (!copies.ok()) return std::move(done)(copies.status());
  absl::Status put = (*copies)->Put(*this, compute_stream());
  HostCopies::CallWhenOver(*std::move(copies), {}, std::move(put),
                           std::move(done));
}

absl::StatusOr<std::unique_ptr<StepStream>> CudaDevice::OpenStepsInOrder(
    Clock& clock) {
  ASSIGN_OR_RETURN(auto end,
                   GpuPassEnd::Create(*this, collective_stream(), clock));
  return std::make_unique<GpuStepStream>(*this, clock, std::move(end));
}

}  // namespace tutti
