#include <array>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "framework/choice/why_not.h"
#include "gpu/device/cuda_device_options.h"
#include "gpu/nccl/runtime/nccl_keys.h"
#include "gpu/nccl/runtime/nccl_runtime.h"
#include "tutti/gpu_devices.h"

namespace tutti {
// Streams of a device. Memory is allocated and freed on separate streams. The
// device's other streams wait for each allocation, and freeing waits for them.
// An allocation itself waits only if it must reuse memory that is still in use.
// Neither makes the other streams wait for each other.
class CudaDevice::Streams {
 public:
  static absl::StatusOr<std::shared_ptr<Streams>> Create(
      GpuRuntime* runtime, int gpu, int64_t freed_ahead_bytes) {
    auto streams = std::make_shared<Streams>(runtime, gpu, freed_ahead_bytes);
    for (OwnedGpuStream* stream :
         {&streams->compute_, &streams->collective_, &streams->copy_,
          &streams->nccl_, &streams->collective_signals_,
          &streams->nccl_signals_, &streams->allocating_, &streams->freeing_}) {
      ASSIGN_OR_RETURN(*stream, NewStream(*runtime, gpu));
    }
    return streams;
  }

  Streams(GpuRuntime* runtime, int gpu, int64_t freed_ahead_bytes)
      : runtime_(runtime), gpu_(gpu), freed_ahead_bytes_(freed_ahead_bytes) {}

  GpuRuntime* runtime() const { return runtime_; }
  int gpu() const { return gpu_; }
  GpuStream compute() const { return compute_.get(); }
  GpuStream collective() const { return collective_.get(); }
  GpuStream copy() const { return copy_.get(); }
  GpuStream nccl() const { return nccl_.get(); }

  GpuStream SignalsOf(GpuStream stream) const {
    if (stream == collective()) return collective_signals_.get();
    if (stream == nccl()) return nccl_signals_.get();
    return stream;
  }

  absl::StatusOr<OwnedGpuEvent> Mark(GpuStream stream) const {
    absl::StatusOr<OwnedGpuEvent> event = NewEvent(*runtime_, gpu_);
    if (!event.ok()) return event;
    RETURN_IF_ERROR(runtime_->RecordEvent(event->get(), stream));
    return event;
  }

  absl::Status Order(GpuStream first, GpuStream second) const {
    ASSIGN_OR_RETURN(const OwnedGpuEvent event, Mark(first));
    return runtime_->WaitForEvent(second, event.get());
  }

  // Allocates memory that the device's streams may use at once.
  absl::StatusOr<void*> Allocate(int64_t num_bytes) ABSL_LOCKS_EXCLUDED(mu_) {
    RETURN_IF_ERROR(OrderAllocatingAfterFreeing(freed_ahead_bytes_));
    const absl::StatusOr<void*> memory = AllocateInOrder(num_bytes);
    if (!memory.ok()) return memory;
    absl::Status status = OrderAllAfterAllocating();
    if (status.ok()) return memory;
    runtime_->FreeAsync(*memory, allocating_.get()).IgnoreError();
    return status;
  }

  void Free(void* memory, int64_t num_bytes) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::Status status = OrderFreeingAfterAll();
    if (status.ok()) status = runtime_->FreeAsync(memory, freeing_.get());
    MutexLock lock(&mu_);
    if (status.ok()) freed_bytes_ += num_bytes;
    free_status_.Update(status);
  }

  absl::Status free_status() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return free_status_;
  }

 private:
  std::array<GpuStream, 4> Users() const {
    return {compute_.get(), collective_.get(), copy_.get(), nccl_.get()};
  }

  // Reuses freed memory if the GPU has no other.
  absl::StatusOr<void*> AllocateInOrder(int64_t num_bytes)
      ABSL_LOCKS_EXCLUDED(mu_) {
    const auto size = static_cast<size_t>(num_bytes);
    const int64_t num_orders = NumOrders();
    absl::StatusOr<void*> memory =
        runtime_->AllocateAsync(size, allocating_.get());
    if (!absl::IsResourceExhausted(memory.status())) return memory;
    RETURN_IF_ERROR(OrderAllocatingAfterFreeing(0));
    // Retries also if another thread has made that order meanwhile.
    if (NumOrders() == num_orders) return memory;
    return runtime_->AllocateAsync(size, allocating_.get());
  }

  // Number of times that allocations were ordered after freed memory.
  int64_t NumOrders() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return num_orders_;
  }

  int64_t FreedBytes() const ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return freed_bytes_;
  }

  // Does nothing unless more than `num_bytes` were freed. Bytes count as freed
  // until another thread's order is complete.
  absl::Status OrderAllocatingAfterFreeing(int64_t num_bytes)
      ABSL_LOCKS_EXCLUDED(mu_, ordering_mu_) {
    if (FreedBytes() <= num_bytes) return absl::OkStatus();
    MutexLock ordering(&ordering_mu_);
    const int64_t freed_bytes = FreedBytes();
    if (freed_bytes <= num_bytes) return absl::OkStatus();
    RETURN_IF_ERROR(Order(freeing_.get(), allocating_.get()));
    MutexLock lock(&mu_);
    freed_bytes_ -= freed_bytes;
    ++num_orders_;
    return absl::OkStatus();
  }

  absl::Status OrderAllAfterAllocating() const {
    ASSIGN_OR_RETURN(const OwnedGpuEvent event, Mark(allocating_.get()));
    for (const GpuStream stream : Users()) {
      RETURN_IF_ERROR(runtime_->WaitForEvent(stream, event.get()));
    }
    return absl::OkStatus();
  }

  absl::Status OrderFreeingAfterAll() const {
    for (const GpuStream stream : Users()) {
      RETURN_IF_ERROR(Order(stream, freeing_.get()));
    }
    return absl::OkStatus();
  }

  GpuRuntime* const runtime_;
  const int gpu_;
  const int64_t freed_ahead_bytes_;

  // Const once Create() returns.
  OwnedGpuStream compute_, collective_, copy_, nccl_, allocating_, freeing_;
  OwnedGpuStream collective_signals_, nccl_signals_;

  Mutex ordering_mu_;  // Held to order allocations.

  mutable Mutex mu_;
  absl::Status free_status_ ABSL_GUARDED_BY(mu_);

  // Bytes freed since the last order of allocations after freed memory.
  int64_t freed_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t num_orders_ ABSL_GUARDED_BY(mu_) = 0;  // Orders made.
};

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Create(
    Options options) {
  const DeviceName& name = options.attributes.name;
  if (name.type != kType) {
    return absl::InvalidArgumentError(
        absl::StrCat("a device on a GPU has the type ", kType, ", which ",
                     name.ToString(), " has not"));
  }
  if (options.runtime == nullptr || options.staging == nullptr ||
      options.environment.queue == nullptr ||
      options.environment.clock == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        name.ToString(),
        " needs a GPU runtime, a queue, a clock and staging buffers"));
  }
  if (options.freed_ahead_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name.ToString(), " cannot free ",
                     options.freed_ahead_bytes, " bytes ahead"));
  }
  ASSIGN_OR_RETURN(
      std::shared_ptr<Streams> streams,
      Streams::Create(options.runtime, options.gpu, options.freed_ahead_bytes));
  ASSIGN_OR_RETURN(auto properties, options.runtime->Properties(options.gpu));
  options.attributes.unit = std::move(properties.uuid);
  options.attributes.libraries.clear();
  if (options.nccl != nullptr) {
    options.attributes.libraries.emplace_back(kNcclLibrary);
    if (options.nccl->WhyBlocking().empty()) {
      options.attributes.libraries.emplace_back(kNcclAmongTasks);
    }
  }
  // The constructor is private.
  return std::unique_ptr<CudaDevice>(
      new CudaDevice(std::move(options), std::move(streams)));
}

CudaDevice::CudaDevice(Options options, std::shared_ptr<Streams> streams)
    : Device(std::move(options.attributes)),
      streams_(std::move(streams)),
      environment_(options.environment),
      staging_(std::move(options.staging)),
      landing_(std::move(options.landing)),
      nccl_(std::move(options.nccl)),
      nccl_key_(NcclKeys::Global().Add(attributes().incarnation, nccl_)) {}

absl::StatusOr<Tensor> CudaDevice::Allocate(DType dtype,
                                            const TensorShape& shape) {
  ASSIGN_OR_RETURN(const int64_t num_bytes, SizeInBytes(dtype, shape));
  if (num_bytes == 0) return Tensor::Wrap(dtype, shape, nullptr);
  const absl::StatusOr<void*> memory = streams_->Allocate(num_bytes);
  if (!memory.ok()) {
    return absl::Status(
        memory.status().code(),
        absl::StrCat("no memory of ", full_name(), " for ", Name(dtype),
                     shape.ToString(), ": ", memory.status().message()));
  }
  return Tensor::Wrap(dtype, shape, *memory,
                      [streams = streams_, begin = *memory, size = num_bytes] {
                        streams->Free(begin, size);
                      });
}

absl::StatusOr<TensorPlace> CudaDevice::PlaceOf(const Tensor& tensor) {
  ASSIGN_OR_RETURN(const int owner, runtime().OwnerOf(tensor.data(), gpu()));
  if (owner == GpuRuntime::kHost) return TensorPlace::kHost;
  return owner == gpu() ? TensorPlace::kDevice : TensorPlace::kElsewhere;
}

absl::StatusOr<std::unique_ptr<StepStream>> CudaDevice::OpenSteps(
    Clock& clock) {
  RETURN_IF_ERROR(Order(compute_stream(), collective_stream()));
  return OpenStepsInOrder(clock);
}

bool CudaDevice::Reaches(const CudaDevice& other) const {
  if (&runtime() != &other.runtime()) return false;
  return gpu() == other.gpu() ||
         tutti::Reaches(attributes(), other.attributes());
}

int CudaDevice::gpu() const { return streams_->gpu(); }
GpuRuntime& CudaDevice::runtime() const { return *streams_->runtime(); }
GpuStream CudaDevice::compute_stream() const { return streams_->compute(); }
GpuStream CudaDevice::collective_stream() const {
  return streams_->collective();
}
GpuStream CudaDevice::copy_stream() const { return streams_->copy(); }
GpuStream CudaDevice::nccl_stream() const { return streams_->nccl(); }

absl::StatusOr<OwnedGpuEvent> CudaDevice::Mark(GpuStream stream) {
  return streams_->Mark(stream);
}

absl::Status CudaDevice::Order(GpuStream first, GpuStream second) {
  return streams_->Order(first, second);
}

GpuStream CudaDevice::SignalsOf(GpuStream stream) const {
  return streams_->SignalsOf(stream);
}

absl::Status CudaDevice::NotifyWhenDone(GpuStream stream, StatusCallback done) {
  return runtime().CallHost(
      [queue = environment_.queue,
       done = std::move(done)](absl::Status status) mutable {
        queue->Schedule(
            [done = std::move(done), status = std::move(status)]() mutable {
              std::move(done)(std::move(status));
            });
      },
      stream);
}

absl::Status CudaDevice::free_status() const { return streams_->free_status(); }

}  // namespace tutti
