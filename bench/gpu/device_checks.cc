#include "bench/gpu/device_checks.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "bench/gpu/gpu_image.h"
#include "bench/gpu/pending_calls.h"
#include "bench/gpu/stream_hold.h"
#include "bench/gpu/suite_group.h"
#include "bench/gpu/suite_machine.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/kernels/gpu_reduction.h"
#include "gpu/runtime/pinned_pool.h"
#include "tutti/collective.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

constexpr size_t kSomeBytes = 4099;

absl::Status Expect(bool is_so, const std::string& what) {
  return is_so ? absl::OkStatus()
               : absl::InternalError(absl::StrCat("wanted: ", what));
}

Bytes SomeBytes(uint64_t seed, size_t num_bytes = kSomeBytes) {
  return RandomElements(DType::kUint8, num_bytes, seed);
}

Tensor NewBytes(SuiteGroup& group, int rank, size_t num_bytes) {
  return group.Allocate(rank, DType::kUint8, static_cast<int64_t>(num_bytes));
}

// All of `from` to `into` on `stream`.
absl::Status Copy(GpuRuntime& runtime, const Tensor& from, Tensor into,
                  GpuStream stream) {
  return runtime.LaunchCopy({.input = from.data(),
                             .outputs = {into.mutable_data()},
                             .num_bytes = from.size_bytes()},
                            stream);
}

absl::Status CheckEvents(SuiteMachine& machine, const CheckScale& /*scale*/) {
  GpuRuntime& runtime = machine.runtime();
  const absl::StatusOr<OwnedGpuEvent> event = NewEvent(runtime, 0);
  if (!event.ok()) return event.status();
  const absl::StatusOr<OwnedGpuStream> stream = NewStream(runtime, 0);
  if (!stream.ok()) return stream.status();
  absl::Status status = runtime.RecordEvent(event->get(), stream->get());
  status.Update(machine.WaitFor(stream->get()));
  const absl::StatusOr<bool> is_done = runtime.IsDone(event->get());
  if (!is_done.ok()) return is_done.status();
  status.Update(Expect(*is_done, "an event that its stream is past is done"));
  return status;
}

// A stream waits for the record that an event had, though the event has gone
// and may have come back as another one.
absl::Status CheckEventsUsedAgain(SuiteMachine& machine,
                                  const CheckScale& scale) {
  if (!scale.holds_streams) return absl::OkStatus();
  GpuRuntime& runtime = machine.runtime();
  std::array<OwnedGpuStream, 3> streams;
  for (OwnedGpuStream& stream : streams) {
    auto made = NewStream(runtime, 0);
    if (!made.ok()) return made.status();
    stream = *std::move(made);
  }
  const GpuStream held = streams[0].get(), waits = streams[1].get(),
                  idle = streams[2].get();
  auto gone = NewEvent(runtime, 0);
  if (!gone.ok()) return gone.status();
  auto past = NewEvent(runtime, 0);
  if (!past.ok()) return past.status();
  const auto hold = machine.Hold(held, absl::Seconds(10));
  if (!hold.ok()) return hold.status();
  absl::Status status = runtime.RecordEvent(gone->get(), held);
  status.Update(runtime.WaitForEvent(waits, gone->get()));
  status.Update(runtime.RecordEvent(past->get(), waits));
  *gone = OwnedGpuEvent();
  const auto next = NewEvent(runtime, 0);
  if (!next.ok()) return next.status();
  status.Update(runtime.RecordEvent(next->get(), idle));
  if (!status.ok()) return status;
  absl::StatusOr<bool> is_done = runtime.IsDone(past->get());
  if (!is_done.ok()) return is_done.status();
  status = Expect(!*is_done, "a stream waits for an event that has gone");
  (*hold)->Release();
  status.Update(machine.WaitFor(waits));
  is_done = runtime.IsDone(past->get());
  if (!is_done.ok()) return is_done.status();
  status.Update(Expect(*is_done, "the stream goes on when the other does"));
  return status;
}

// On every GPU.
absl::Status CheckProperties(SuiteMachine& machine,
                             const CheckScale& /*scale*/) {
  const absl::StatusOr<int> num_gpus = machine.runtime().NumGpus();
  if (!num_gpus.ok()) return num_gpus.status();
  std::set<std::string> uuids;
  for (int gpu = 0; gpu < *num_gpus; ++gpu) {
    const auto properties = machine.runtime().Properties(gpu);
    if (!properties.ok()) return properties.status();
    absl::Status status = Expect(
        !properties->name.empty() && !properties->bus_id.empty() &&
            properties->num_multiprocessors > 0 && properties->memory_bytes > 0,
        absl::StrCat("GPU ", gpu, " has a name, a place and a size"));
    status.Update(Expect(
        !properties->uuid.empty() && uuids.insert(properties->uuid).second,
        absl::StrCat("GPU ", gpu, " has a UUID that no other has")));
    const auto link = machine.runtime().LinkBetween(gpu, gpu);
    status.Update(link.status());
    if (status.ok()) status = machine.runtime().EnablePeerAccess(gpu, gpu);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckMistakes(SuiteMachine& machine, const CheckScale& /*scale*/) {
  GpuRuntime& runtime = machine.runtime();
  const absl::StatusOr<OwnedGpuStream> stream = NewStream(runtime, 0);
  if (!stream.ok()) return stream.status();
  absl::Status refused = runtime.LaunchReduce({}, stream->get());
  absl::Status status = Expect(
      absl::IsInvalidArgument(refused),
      absl::StrCat("no reduction of no buffers; found ", refused.ToString()));
  refused = runtime.AllocateAsync(size_t{1} << 44, stream->get()).status();
  status.Update(
      Expect(absl::IsResourceExhausted(refused),
             absl::StrCat("no memory of 16 TiB; found ", refused.ToString())));
  // Neither spoilt the GPU.
  status.Update(machine.WaitFor(stream->get()));
  return status;
}

// Write on the compute stream, copy on each of the others, read again.
absl::Status CheckOrder(SuiteMachine& machine, const CheckScale& scale) {
  const auto group = SuiteGroup::Create(machine, 1, 2);
  if (!group.ok()) return group.status();
  CudaDevice& first = (*group)->device(0);
  CudaDevice& second = (*group)->device(1);
  for (int round = 0; round < scale.rounds; ++round) {
    const Bytes bytes = SomeBytes(round);
    const Tensor from = NewBytes(**group, 0, kSomeBytes);
    const Tensor between = NewBytes(**group, 0, kSomeBytes);
    const Tensor into = NewBytes(**group, 1, kSomeBytes);
    (*group)->Write(0, from, bytes);
    const GpuStream collective = first.collective_stream();
    const GpuStream copying = second.copy_stream();
    absl::Status status = first.Order(first.compute_stream(), collective);
    if (!from.is_set() || !between.is_set() || !into.is_set()) {
      return (*group)->Finish();
    }
    status.Update(Copy(machine.runtime(), from, between, collective));
    status.Update(first.Order(collective, copying));
    status.Update(Copy(machine.runtime(), between, into, copying));
    status.Update(second.Order(copying, second.compute_stream()));
    const uint8_t* const found = (*group)->Read(1, into);
    status.Update((*group)->Finish());
    if (status.ok()) status = CompareBytes("the copy", bytes, found);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// What is put before it has run when it is told.
absl::Status CheckNotify(SuiteMachine& machine, const CheckScale& scale) {
  const auto group = SuiteGroup::Create(machine, 1, 1);
  if (!group.ok()) return group.status();
  CudaDevice& device = (*group)->device(0);
  for (int round = 0; round < scale.rounds; ++round) {
    const Bytes bytes = SomeBytes(round);
    const Tensor tensor = NewBytes(**group, 0, kSomeBytes);
    (*group)->Write(0, tensor, bytes);
    const uint8_t* const found = (*group)->Read(0, tensor);
    if (found == nullptr) return (*group)->Finish();
    PendingCalls calls;
    // Runs once, after the read: the callback compares.
    absl::Status status = device.NotifyWhenDone(
        device.compute_stream(), [ended = calls.Add("NotifyWhenDone"), &bytes,
                                  found](absl::Status told) mutable {
          told.Update(CompareBytes("what was read", bytes, found));
          std::move(ended)(std::move(told));
        });
    status.Update(machine.Wait(calls));
    status.Update((*group)->Finish());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Tensors that come and go, more than may be freed ahead: each must keep what
// it holds until it is read, whatever memory is used again.
absl::Status CheckMemory(SuiteMachine& machine, const CheckScale& scale) {
  const auto group = SuiteGroup::Create(machine, 1, 1);
  if (!group.ok()) return group.status();
  const auto size = static_cast<size_t>(scale.churn_bytes);
  const GpuStream compute = (*group)->device(0).compute_stream();
  const Bytes bytes[] = {SomeBytes(1, size), SomeBytes(2, size)};
  Tensor sources[2];
  for (int i = 0; i < 2; ++i) {
    sources[i] = NewBytes(**group, 0, size);
    (*group)->Write(0, sources[i], bytes[i]);
  }
  std::deque<Tensor> living;
  for (int round = 0; round < scale.rounds; ++round) {
    living.push_back(NewBytes(**group, 0, size));
    if (!living.back().is_set()) return (*group)->Finish();
    const absl::Status status =
        Copy(machine.runtime(), sources[round % 2], living.back(), compute);
    if (!status.ok()) return status;
    if (living.size() > 4) living.pop_front();
  }
  std::vector<const uint8_t*> found;
  for (const Tensor& tensor : living) {
    found.push_back((*group)->Read(0, tensor));
  }
  absl::Status status = (*group)->Finish();
  const int first = scale.rounds - static_cast<int>(living.size());
  for (size_t i = 0; status.ok() && i < living.size(); ++i) {
    const size_t source = (static_cast<size_t>(first) + i) % 2;
    status = CompareBytes(absl::StrCat("tensor ", i), bytes[source], found[i]);
  }
  return status;
}

// A buffer that is given back is used again; bytes go through one to the GPU
// and back.
absl::Status CheckPool(SuiteMachine& machine, const CheckScale& /*scale*/) {
  GpuRuntime& runtime = machine.runtime();
  const auto pool = PinnedPool::Create({.runtime = &runtime});
  if (!pool.ok()) return pool.status();
  const std::byte* first = nullptr;
  {
    const auto buffer = (*pool)->Take(kSomeBytes);
    if (!buffer.ok()) return buffer.status();
    first = buffer->data();
  }
  const auto from = (*pool)->Take(kSomeBytes), into = (*pool)->Take(kSomeBytes);
  if (!from.ok()) return from.status();
  if (!into.ok()) return into.status();
  absl::Status status = Expect(from->data() == first,
                               "a buffer that was given back is taken again");
  const Bytes bytes = SomeBytes(7);
  std::memcpy(from->data(), bytes.data(), bytes.size());
  const auto stream = NewStream(runtime, 0);
  if (!stream.ok()) return stream.status();
  const auto memory = runtime.AllocateAsync(kSomeBytes, stream->get());
  if (!memory.ok()) return memory.status();
  status.Update(
      runtime.CopyAsync(*memory, from->data(), kSomeBytes, stream->get()));
  status.Update(
      runtime.CopyAsync(into->data(), *memory, kSomeBytes, stream->get()));
  status.Update(runtime.FreeAsync(*memory, stream->get()));
  status.Update(machine.WaitFor(stream->get()));
  if (!status.ok()) return status;
  return CompareBytes("the second buffer", bytes,
                      reinterpret_cast<const uint8_t*>(into->data()));
}

// A kernel reads what a copy has written to a buffer on the GPU, past the pools
// of its streams.
absl::Status CheckPoolOnGpu(SuiteMachine& machine,
                            const CheckScale& /*scale*/) {
  GpuRuntime& runtime = machine.runtime();
  const auto pool = PinnedPool::Create({.runtime = &runtime});
  const auto on_gpu =
      PinnedPool::Create({.runtime = &runtime, .is_on_gpu = true});
  if (!pool.ok()) return pool.status();
  if (!on_gpu.ok()) return on_gpu.status();
  const auto from = (*pool)->Take(kSomeBytes), into = (*pool)->Take(kSomeBytes);
  const auto landing = (*on_gpu)->Take(kSomeBytes);
  for (const auto* buffer : {&from, &into, &landing}) {
    if (!buffer->ok()) return buffer->status();
  }
  const Bytes bytes = SomeBytes(8);
  std::memcpy(from->data(), bytes.data(), bytes.size());
  const auto stream = NewStream(runtime, 0);
  if (!stream.ok()) return stream.status();
  absl::Status status = runtime.CopyAsync(landing->data(), from->data(),
                                          kSomeBytes, stream->get());
  status.Update(runtime.LaunchCopy({.input = landing->data(),
                                    .outputs = {into->data()},
                                    .num_bytes = kSomeBytes},
                                   stream->get()));
  status.Update(machine.WaitFor(stream->get()));
  if (!status.ok()) return status;
  return CompareBytes("what the kernel has copied", bytes,
                      reinterpret_cast<const uint8_t*>(into->data()));
}

// From each GPU to each other, whether or not there is a link.
absl::Status CheckCopiesBetween(SuiteMachine& machine, int num_gpus) {
  const auto group = SuiteGroup::Create(machine, num_gpus, 1);
  if (!group.ok()) return group.status();
  for (int from = 0; from < num_gpus; ++from) {
    for (int to = 0; to < num_gpus; ++to) {
      const Bytes bytes = SomeBytes(100 * from + to);
      const Tensor source = NewBytes(**group, from, kSomeBytes);
      Tensor target = NewBytes(**group, to, kSomeBytes);
      (*group)->Write(from, source, bytes);
      if (!source.is_set() || !target.is_set()) return (*group)->Finish();
      const GpuStream stream = (*group)->device(to).compute_stream();
      CudaDevice& first = (*group)->device(from);
      absl::Status status = first.Order(first.compute_stream(), stream);
      status.Update(machine.runtime().CopyAsync(
          target.mutable_data(), source.data(), kSomeBytes, stream));
      const uint8_t* const found = (*group)->Read(to, target);
      status.Update((*group)->Finish());
      if (status.ok()) {
        status = CompareBytes(absl::StrCat("from GPU ", from, " to GPU ", to),
                              bytes, found);
      }
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// A kernel that reads memory that is not there, then a collective, and one who
// waits for the stream.
absl::Status CheckFault(SuiteMachine& machine) {
  const auto group = SuiteGroup::Create(machine, 1, 2);
  if (!group.ok()) return group.status();
  CudaDevice& device = (*group)->device(0);
  const CollectiveRequest request =
      (*group)->Request(AllReduce{}, DType::kFloat32, 5);
  std::vector<Tensor> tensors;
  for (int rank = 0; rank < 2; ++rank) {
    tensors.push_back((*group)->Allocate(rank, DType::kFloat32, 5));
    if (!tensors[rank].is_set()) return (*group)->Finish();
  }
  // Not an address of any GPU's memory.
  const auto* const nowhere =
      reinterpret_cast<const void*>(uintptr_t{4096});  // NOLINT: nobody's.
  absl::Status status =
      machine.runtime().LaunchCopy({.input = nowhere,
                                    .outputs = {tensors[0].mutable_data()},
                                    .num_bytes = 4},
                                   device.compute_stream());
  if (!status.ok()) return During("the launch that is to fail later", status);
  for (int rank = 0; rank < 2; ++rank) {
    (*group)->Call(rank, request, tensors[rank], &tensors[rank]);
  }
  PendingCalls told;
  device.NotifyWhenDone(device.compute_stream(), told.Add("NotifyWhenDone"))
      .IgnoreError();  // The callback has it.
  status = machine.Wait(told);
  const absl::Status ended = (*group)->Finish();
  if (absl::IsDeadlineExceeded(status)) return status;
  if (absl::IsDeadlineExceeded(ended)) return ended;
  status = Expect(!status.ok(), "NotifyWhenDone tells of the fault");
  status.Update(Expect(!ended.ok(), "the collective ends with the fault"));
  return status;
}

}  // namespace

std::vector<Check> DeviceChecks(int num_gpus, const CheckScale& scale) {
  using DeviceCheck = absl::Status (*)(SuiteMachine&, const CheckScale&);
  const std::pair<const char*, DeviceCheck> kParts[] = {
      {"events", &CheckEvents},
      {"events that are used again", &CheckEventsUsedAgain},
      {"properties", &CheckProperties},
      {"refusals", &CheckMistakes},
      {"order of streams", &CheckOrder},
      {"NotifyWhenDone", &CheckNotify},
      {"memory that is used again", &CheckMemory},
      {"pinned buffers", &CheckPool},
      {"pinned buffers on the GPU", &CheckPoolOnGpu},
  };
  std::vector<Check> checks;
  for (const auto& [name, check] : kParts) {
    checks.push_back({.name = absl::StrCat("devices: ", name),
                      .run = [scale, check = check](SuiteMachine& machine) {
                        return check(machine, scale);
                      }});
  }
  if (num_gpus > 1) {
    checks.push_back({.name = "devices: copies between GPUs",
                      .run = [num_gpus](SuiteMachine& machine) {
                        return CheckCopiesBetween(machine, num_gpus);
                      }});
  }
  return checks;
}

Check FaultCheck() { return {.name = "a GPU that fails", .run = &CheckFault}; }

}  // namespace tutti
