#include "gpu/device/gpu_step_stream.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/runtime/gpu_launch.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

std::vector<GpuEvent> HandlesOf(const GpuEvents& events) {
  std::vector<GpuEvent> handles;
  handles.reserve(events.size());
  for (const auto& [gpu, event] : events) handles.push_back(event->get());
  return handles;
}

// Returns the buffer. Its users were on the stream before `end`, which has
// ended.
void GiveBack(std::shared_ptr<GpuLanding> buffer, const GpuPassEnd& end) {
  if (end.MayGoOn()) buffer->Abandon();
}

}  // namespace

absl::Status GpuStepStream::Copy(std::byte* into, const std::byte* from,
                                 size_t num_bytes) {
  return device_.runtime().LaunchCopy(
      {.input = from, .outputs = {into}, .num_bytes = num_bytes},
      device_.collective_stream());
}

// Frees the scratch on the stream, after the last launch.
absl::Status GpuStepStream::Reduce(const StepReduction& reduction) {
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
        scratch, device_.Allocate(reduction.dtype,
                                  TensorShape::Vector(reduction.num_elements)));
  }
  return LaunchInOrder(device_.runtime(),
                       SplitReduction(whole, scratch.mutable_data()),
                       device_.collective_stream());
}

absl::StatusOr<std::shared_ptr<const DeviceFence>> GpuStepStream::Mark() {
  ASSIGN_OR_RETURN(OwnedGpuEvent event,
                   device_.Mark(device_.collective_stream()));
  return std::make_shared<const GpuFence>(device_, std::move(event), Awaited());
}

absl::Status GpuStepStream::WaitFor(const DeviceFence& fence) {
  const auto* const of_gpu = dynamic_cast<const GpuFence*>(&fence);
  if (of_gpu == nullptr || &of_gpu->device().runtime() != &device_.runtime()) {
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

GpuEvents GpuStepStream::Awaited() const {
  MutexLock lock(&mu_);
  return awaited_;
}

absl::Status GpuStepStream::ReadPeer(absl::Span<const std::byte> bytes,
                                     const DeviceFence& written, Put put) {
  RETURN_IF_ERROR(WaitFor(written));
  if (device_.Reaches(static_cast<const GpuFence&>(written).device())) {
    return put(bytes.data());
  }
  ASSIGN_OR_RETURN(
      Tensor copy,
      device_.Allocate(DType::kUint8, TensorShape::Vector(
                                          static_cast<int64_t>(bytes.size()))));
  absl::Status status =
      device_.runtime().CopyAsync(copy.mutable_data(), bytes.data(),
                                  bytes.size(), device_.collective_stream());
  return status.ok() ? put(copy.data()) : status;
}

absl::Status GpuStepStream::ReadHost(absl::Span<const std::byte> bytes,
                                     Put put) {
  Reclaim();
  ASSIGN_OR_RETURN(PinnedPool::Buffer buffer,
                   device_.staging()->Take(bytes.size()));
  std::memcpy(buffer.data(), bytes.data(), bytes.size());
  return PutRead(std::make_shared<GpuLanding>(std::move(buffer), bytes.size()),
                 put);
}

std::shared_ptr<DeviceLanding> GpuStepStream::Land(size_t num_bytes) {
  if (!opens_memory()) return nullptr;
  Reclaim();
  absl::StatusOr<PinnedPool::Buffer> buffer =
      device_.landing()->Take(num_bytes);
  if (!buffer.ok()) return nullptr;
  return std::make_shared<GpuLanding>(*std::move(buffer), num_bytes);
}

absl::Status GpuStepStream::ReadLanding(std::shared_ptr<DeviceLanding> landing,
                                        Put put) {
  return PutRead(std::static_pointer_cast<GpuLanding>(std::move(landing)), put);
}

absl::Status GpuStepStream::PutRead(std::shared_ptr<GpuLanding> buffer,
                                    Put put) {
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

void GpuStepStream::Reclaim() {
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

void GpuStepStream::CallWhenWritten(StatusCallback done) {
  const auto end =
      GpuPassEnd::Create(device_, device_.collective_stream(), clock_);
  if (!end.ok()) return std::move(done)(end.status());
  absl::Status status = (*end)->Mark();
  GpuEvents awaited = Awaited();
  std::vector<GpuEvent> events = HandlesOf(awaited);
  (*end)->CallWhenOver(
      std::move(events),
      [awaited = std::move(awaited), status = std::move(status),
       done = std::move(done)](absl::Status ended) mutable {
        awaited.clear();  // The device may be destroyed by `done`.
        ended.Update(status);
        std::move(done)(std::move(ended));
      });
}

void GpuStepStream::CopyToHost(absl::Span<const std::byte> bytes,
                               HostCallback done) {
  absl::StatusOr<PinnedPool::Buffer> buffer =
      device_.staging()->Take(bytes.size());
  if (!buffer.ok()) return std::move(done)(buffer.status());
  const GpuStream stream = device_.copy_stream();
  const auto end = GpuPassEnd::Create(device_, stream, clock_);
  if (!end.ok()) {
    buffer = end.status();  // The device may be destroyed by `done`.
    return std::move(done)(end.status());
  }
  auto into = std::make_shared<GpuLanding>(*std::move(buffer), bytes.size());
  absl::Status status = PutCopyToHost(bytes, into->bytes().data());
  if (status.ok()) status = (*end)->Mark();
  GpuEvents awaited = Awaited();
  std::vector<GpuEvent> events = HandlesOf(awaited);
  // Waits also after an error: the copy may be on the stream.
  (*end)->CallWhenOver(
      std::move(events), [&end = **end, awaited = std::move(awaited),
                          into = std::move(into), status = std::move(status),
                          done = std::move(done)](absl::Status ended) mutable {
        awaited.clear();  // The device may be destroyed by `done`.
        ended.Update(status);
        if (!ended.ok()) {
          GiveBack(std::move(into), end);
          return std::move(done)(std::move(ended));
        }
        const absl::Span<std::byte> written = into->bytes();
        absl::StatusOr<Tensor> copy = Tensor::Wrap(
            DType::kUint8,
            TensorShape::Vector(static_cast<int64_t>(written.size())),
            written.data(), [into = std::move(into)] {});
        std::move(done)(std::move(copy));
      });
}

absl::Status GpuStepStream::PutCopyToHost(absl::Span<const std::byte> bytes,
                                          std::byte* into) {
  const GpuStream stream = device_.copy_stream();
  RETURN_IF_ERROR(device_.Order(device_.collective_stream(), stream));
  return device_.runtime().CopyAsync(into, bytes.data(), bytes.size(), stream);
}

void GpuStepStream::CallWhenOver(StatusCallback done) {
  // Copied: a later wait may replace events in `awaited_`.
  std::vector<std::shared_ptr<const OwnedGpuEvent>> awaited;
  {
    MutexLock lock(&mu_);
    awaited = missed_;
    for (const auto& [gpu, event] : awaited_) awaited.push_back(event);
  }
  std::vector<GpuEvent> events;
  events.reserve(awaited.size());
  for (const auto& event : awaited) events.push_back(event->get());
  // After an error, the next look marks the end.
  end_->Mark().IgnoreError();
  end_->CallWhenOver(std::move(events),
                     [this, awaited = std::move(awaited),
                      done = std::move(done)](absl::Status status) mutable {
                       if (end_->MayGoOn()) Reclaim();
                       std::deque<Read> reads;
                       {
                         MutexLock lock(&mu_);
                         reads.swap(reads_);
                       }
                       // Freed before `done`, which may destroy the device.
                       for (Read& read : reads) {
                         GiveBack(std::move(read.buffer), *end_);
                       }
                       reads.clear();
                       awaited.clear();
                       std::move(done)(std::move(status));
                     });
}

}  // namespace tutti
