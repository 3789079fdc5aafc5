#include "gpu/testing/fake_gpu_runtime.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "gpu/testing/fake_gpu_memory.h"
#include "gpu/testing/fake_gpu_queues.h"
#include "tutti/reduction.h"

namespace tutti {
namespace {

// Number without faults.
constexpr int kNeverFails = -1;

int Number(GpuCall call) { return static_cast<int>(call); }

// Memory as a kernel on `gpu` sees it.
class View {
 public:
  View(FakeGpuMemory& memory, int gpu, std::set<int> peers)
      : memory_(memory), gpu_(gpu), peers_(std::move(peers)) {}

  absl::StatusOr<uint8_t*> Access(const void* address, size_t num_bytes) const {
    const int owner = memory_.OwnerOf(address);
    if (owner == FakeGpuMemory::kHost &&
        !memory_.IsPinned(address, num_bytes)) {
      return absl::FailedPreconditionError(
          "a kernel uses host memory that is not pinned");
    }
    const bool is_own = owner == gpu_ || owner == FakeGpuMemory::kHost;
    if (!is_own && !peers_.contains(owner)) {
      return absl::FailedPreconditionError(
          absl::StrCat("a kernel on GPU ", gpu_, " uses memory of GPU ", owner,
                       ", to which access is not enabled"));
    }
    return memory_.Access(address, num_bytes);
  }

  // Accesses all of `addresses`.
  template <typename Pointer, typename Address>
  absl::Status AccessAll(const std::vector<Address*>& addresses,
                         size_t num_bytes, std::vector<Pointer>* into) const {
    for (const void* address : addresses) {
      const absl::StatusOr<uint8_t*> found = Access(address, num_bytes);
      if (!found.ok()) return found.status();
      into->push_back(*found);
    }
    return absl::OkStatus();
  }

 private:
  FakeGpuMemory& memory_;
  int gpu_;
  std::set<int> peers_;
};

absl::Status Reduce(const GpuReduction& reduction, const View& view) {
  const size_t num_bytes = reduction.num_elements * SizeOf(reduction.dtype);
  std::vector<const uint8_t*> inputs;
  std::vector<uint8_t*> outputs;
  absl::Status status = view.AccessAll(reduction.inputs, num_bytes, &inputs);
  if (!status.ok()) return status;
  status = view.AccessAll(reduction.outputs, num_bytes, &outputs);
  if (!status.ok()) return status;
  const bool is_floating = IsFloating(reduction.dtype);
  ReduceMany({.kind = reduction.kind,
              .dtype = reduction.dtype,
              .inputs = inputs,
              .outputs = outputs,
              .num_elements = reduction.num_elements,
              .divisor = is_floating ? reduction.divisor : 1});
  if (is_floating || reduction.divisor == 1) return absl::OkStatus();
  for (uint8_t* output : outputs) {
    DivideBy(reduction.dtype, output, reduction.num_elements,
             reduction.divisor);
  }
  return absl::OkStatus();
}

absl::Status Copy(const GpuCopy& copy, const View& view) {
  const absl::StatusOr<uint8_t*> input =
      view.Access(copy.input, copy.num_bytes);
  if (!input.ok()) return input.status();
  std::vector<uint8_t*> outputs;
  const absl::Status status =
      view.AccessAll(copy.outputs, copy.num_bytes, &outputs);
  if (!status.ok()) return status;
  CopyToMany(*input, outputs, {}, copy.num_bytes);
  return absl::OkStatus();
}

}  // namespace

// Peers whose memory each GPU may use.
class FakeGpuRuntime::Peers {
 public:
  void Add(int gpu, int peer) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    peers_[gpu].insert(peer);
  }
  std::set<int> Of(int gpu) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    return peers_[gpu];
  }

 private:
  Mutex mu_;
  std::map<int, std::set<int>> peers_ ABSL_GUARDED_BY(mu_);
};

FakeGpuRuntime::FakeGpuRuntime(Options options)
    : options_(std::move(options)),
      queues_(std::make_shared<FakeGpuQueues>(
          options_.num_gpus, options_.keeps_host_work, options_.environment)),
      peers_(std::make_unique<Peers>()) {}

FakeGpuRuntime::~FakeGpuRuntime() { queues_->End(); }

void FakeGpuRuntime::FailCall(GpuCall call, int num_good, absl::Status status,
                              int num_bad) {
  queues_->FailCall(Number(call), num_good, std::move(status), num_bad);
}

int64_t FakeGpuRuntime::NumCalls(GpuCall call) const {
  return queues_->NumCalls(Number(call));
}

void FakeGpuRuntime::FailStream(GpuStream stream, absl::Status status) {
  queues_->PutFault(stream, std::move(status)).IgnoreError();
}

absl::Status FakeGpuRuntime::Put(GpuStream stream, Operation operation) {
  const absl::Status status = queues_->Begin(kNeverFails, "Put", stream.gpu);
  return status.ok() ? queues_->Put(stream, std::move(operation)) : status;
}

absl::Status FakeGpuRuntime::PutGate(
    GpuStream stream, std::shared_ptr<const std::atomic<bool>> gate) {
  const absl::Status status =
      queues_->Begin(kNeverFails, "PutGate", stream.gpu);
  return status.ok() ? queues_->PutGate(stream, std::move(gate)) : status;
}

// Defers the wake: queues of several runtimes may open each other's gates.
std::function<void()> FakeGpuRuntime::Waker() const {
  return [queues = queues_, queue = options_.environment.queue] {
    queue->Schedule([queues] { queues->Wake(); });
  };
}

std::vector<std::string> FakeGpuRuntime::Mistakes() const {
  return queues_->Mistakes();
}

std::vector<std::string> FakeGpuRuntime::Leaks() const {
  return queues_->Leaks();
}

int FakeGpuRuntime::NumEvents() const { return queues_->NumEvents(); }

int64_t FakeGpuRuntime::UsedBytes(int gpu) const {
  int64_t used = 0;
  queues_->WithMemory(
      [&](FakeGpuMemory& memory) { used = memory.UsedBytes(gpu); });
  return used;
}

absl::StatusOr<std::vector<uint8_t>> FakeGpuRuntime::Read(
    const void* memory, size_t num_bytes) const {
  absl::StatusOr<std::vector<uint8_t>> bytes;
  queues_->WithMemory([&](FakeGpuMemory& all) {
    const absl::StatusOr<uint8_t*> found = all.Access(memory, num_bytes);
    if (found.ok()) {
      bytes = std::vector<uint8_t>(*found, *found + num_bytes);
    } else {
      bytes = found.status();
    }
  });
  return bytes;
}

absl::StatusOr<int> FakeGpuRuntime::NumGpus() {
  const absl::Status status = queues_->CheckMayCall("NumGpus");
  if (!status.ok()) return status;
  return options_.num_gpus;
}

absl::StatusOr<GpuProperties> FakeGpuRuntime::Properties(int gpu) {
  const absl::Status status = queues_->Begin(kNeverFails, "Properties", gpu);
  if (!status.ok()) return status;
  return GpuProperties{.name = "Fake",
                       .bus_id = absl::StrCat("0000:0", gpu, ":00.0"),
                       .uuid = absl::StrCat(options_.host, "-", gpu),
                       .num_multiprocessors = 1,
                       .memory_bytes = options_.memory_bytes};
}

absl::StatusOr<PeerLink> FakeGpuRuntime::LinkBetween(int gpu, int peer) {
  for (const int one : {gpu, peer}) {
    const absl::Status status = queues_->Begin(kNeverFails, "LinkBetween", one);
    if (!status.ok()) return status;
  }
  if (gpu == peer || options_.link == nullptr) return PeerLink::kNvLink;
  return options_.link(gpu, peer);
}

absl::Status FakeGpuRuntime::EnablePeerAccess(int gpu, int peer) {
  const absl::Status status = queues_->Begin(Number(GpuCall::kEnablePeerAccess),
                                             "EnablePeerAccess", gpu);
  if (!status.ok()) return status;
  const absl::StatusOr<PeerLink> link = LinkBetween(gpu, peer);
  if (!link.ok()) return link.status();
  if (*link == PeerLink::kNone) {
    return absl::FailedPreconditionError(absl::StrCat(
        "EnablePeerAccess: GPU ", gpu, " has no link to GPU ", peer));
  }
  peers_->Add(gpu, peer);
  return absl::OkStatus();
}

absl::StatusOr<GpuStream> FakeGpuRuntime::CreateStream(int gpu) {
  const absl::Status status =
      queues_->Begin(Number(GpuCall::kCreateStream), "CreateStream", gpu);
  if (!status.ok()) return status;
  return queues_->CreateStream(gpu);
}

absl::Status FakeGpuRuntime::DestroyStream(GpuStream stream) {
  const absl::Status status = queues_->CheckMayCall("DestroyStream");
  return status.ok() ? queues_->DestroyStream(stream) : status;
}

absl::StatusOr<GpuEvent> FakeGpuRuntime::CreateEvent(int gpu) {
  const absl::Status status =
      queues_->Begin(Number(GpuCall::kCreateEvent), "CreateEvent", gpu);
  if (!status.ok()) return status;
  return queues_->CreateEvent(gpu);
}

absl::Status FakeGpuRuntime::DestroyEvent(GpuEvent event) {
  const absl::Status status = queues_->CheckMayCall("DestroyEvent");
  return status.ok() ? queues_->DestroyEvent(event) : status;
}

absl::Status FakeGpuRuntime::RecordEvent(GpuEvent event, GpuStream stream) {
  absl::Status status =
      queues_->Begin(Number(GpuCall::kRecordEvent), "RecordEvent", stream.gpu);
  if (status.ok() && options_.on_record != nullptr) {
    status = options_.on_record(stream);
  }
  return status.ok() ? queues_->Record(event, stream) : status;
}

absl::Status FakeGpuRuntime::FirstError(int gpu) {
  return queues_->FirstError(gpu);
}

absl::StatusOr<bool> FakeGpuRuntime::IsDone(GpuEvent event) {
  const absl::Status status =
      queues_->Begin(Number(GpuCall::kIsDone), "IsDone", event.gpu);
  if (!status.ok()) return status;
  return queues_->IsDone(event);
}

absl::Status FakeGpuRuntime::WaitForEvent(GpuStream stream, GpuEvent event) {
  absl::Status status = queues_->Begin(Number(GpuCall::kWaitForEvent),
                                       "WaitForEvent", stream.gpu);
  if (status.ok()) {
    status = queues_->CheckPeer("WaitForEvent", stream.gpu, event.gpu);
  }
  return status.ok() ? queues_->Wait(stream, event) : status;
}

absl::StatusOr<void*> FakeGpuRuntime::Reserve(const char* call, int gpu,
                                              size_t num_bytes) {
  absl::StatusOr<void*> memory;
  queues_->WithMemory([&](FakeGpuMemory& all) {
    const int64_t left = options_.memory_bytes - all.UsedBytes(gpu);
    if (num_bytes == 0 || num_bytes > static_cast<uint64_t>(left)) {
      memory = absl::ResourceExhaustedError(
          absl::StrCat(call, " on GPU ", gpu, ": ", num_bytes, " bytes of ",
                       left, " that are left"));
    } else {
      memory = all.Reserve(gpu, num_bytes);
    }
  });
  return memory;
}

absl::StatusOr<void*> FakeGpuRuntime::AllocateAsync(size_t num_bytes,
                                                    GpuStream stream) {
  absl::Status status = queues_->Begin(Number(GpuCall::kAllocateAsync),
                                       "AllocateAsync", stream.gpu);
  if (!status.ok()) return status;
  const absl::StatusOr<void*> memory =
      Reserve("AllocateAsync", stream.gpu, num_bytes);
  if (!memory.ok()) return memory;
  status = queues_->Put(stream, [begin = *memory](FakeGpuMemory& all) {
    all.Begin(begin);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return memory;
}

absl::Status FakeGpuRuntime::FreeAsync(void* memory, GpuStream stream) {
  absl::Status status =
      queues_->Begin(Number(GpuCall::kFreeAsync), "FreeAsync", stream.gpu);
  if (!status.ok()) return status;
  queues_->WithMemory(
      [&](FakeGpuMemory& all) { status = all.CheckCanEnd(memory); });
  if (!status.ok()) return status;
  return queues_->Put(stream,
                      [memory](FakeGpuMemory& all) { return all.End(memory); });
}

absl::StatusOr<PinnedMemory> FakeGpuRuntime::AllocatePinned(size_t num_bytes,
                                                            int gpu) {
  const absl::Status status =
      queues_->Begin(Number(GpuCall::kAllocatePinned), "AllocatePinned", gpu);
  if (!status.ok()) return status;
  PinnedMemory memory = {.gpu = gpu};
  queues_->WithMemory(
      [&](FakeGpuMemory& all) { memory.data = all.AllocatePinned(num_bytes); });
  return memory;
}

absl::StatusOr<PinnedMemory> FakeGpuRuntime::AllocatePinnedOnGpu(
    size_t num_bytes, int gpu) {
  const absl::Status status = queues_->Begin(
      Number(GpuCall::kAllocatePinnedOnGpu), "AllocatePinnedOnGpu", gpu);
  if (!status.ok()) return status;
  const absl::StatusOr<void*> data =
      Reserve("AllocatePinnedOnGpu", gpu, num_bytes);
  if (!data.ok()) return data.status();
  queues_->WithMemory([&](FakeGpuMemory& all) {
    if (options_.host_may_touch) all.LetHostTouch(*data);
    all.Begin(*data);
  });
  return PinnedMemory{.gpu = gpu, .data = *data, .is_on_gpu = true};
}

absl::Status FakeGpuRuntime::FreePinned(PinnedMemory memory) {
  absl::Status status = queues_->CheckMayCall("FreePinned");
  if (!status.ok()) return status;
  queues_->WithMemory([&](FakeGpuMemory& all) {
    status = memory.is_on_gpu ? all.CheckCanEnd(memory.data)
                              : all.FreePinned(memory.data);
    if (status.ok() && memory.is_on_gpu) status = all.End(memory.data);
  });
  if (!status.ok()) queues_->AddMistake(std::string(status.message()));
  return status;
}

absl::Status FakeGpuRuntime::CopyAsync(void* to, const void* from,
                                       size_t num_bytes, GpuStream stream) {
  absl::Status status =
      queues_->Begin(Number(GpuCall::kCopyAsync), "CopyAsync", stream.gpu);
  if (!status.ok()) return status;
  int source = FakeGpuMemory::kHost;
  queues_->WithMemory(
      [&](FakeGpuMemory& memory) { source = memory.OwnerOf(from); });
  if (source != FakeGpuMemory::kHost) {
    status = queues_->CheckPeer("CopyAsync", stream.gpu, source);
    if (!status.ok()) return status;
  }
  return queues_->Put(stream, [to, from, num_bytes](FakeGpuMemory& memory) {
    const absl::StatusOr<uint8_t*> source = memory.Access(from, num_bytes);
    if (!source.ok()) return source.status();
    const absl::StatusOr<uint8_t*> target = memory.Access(to, num_bytes);
    if (!target.ok()) return target.status();
    std::copy_n(*source, num_bytes, *target);
    return absl::OkStatus();
  });
}

absl::Status FakeGpuRuntime::CallHost(StatusCallback call, GpuStream stream) {
  const absl::Status status =
      queues_->Begin(Number(GpuCall::kCallHost), "CallHost", stream.gpu);
  if (status.ok()) return queues_->PutHostCall(stream, std::move(call));
  std::move(call)(status);
  return status;
}

absl::Status FakeGpuRuntime::LaunchReduce(const GpuReduction& reduction,
                                          GpuStream stream) {
  absl::Status status = CheckReduction(reduction);
  if (!status.ok() || reduction.num_elements == 0) return status;
  status = queues_->Begin(Number(GpuCall::kLaunchReduce), "LaunchReduce",
                          stream.gpu);
  if (!status.ok()) return status;
  return queues_->Put(stream,
                      [reduction, gpu = stream.gpu,
                       peers = peers_->Of(stream.gpu)](FakeGpuMemory& memory) {
                        return Reduce(reduction, View(memory, gpu, peers));
                      });
}

absl::Status FakeGpuRuntime::LaunchCopy(const GpuCopy& copy, GpuStream stream) {
  absl::Status status = CheckCopy(copy);
  if (!status.ok() || copy.num_bytes == 0) return status;
  status =
      queues_->Begin(Number(GpuCall::kLaunchCopy), "LaunchCopy", stream.gpu);
  if (!status.ok()) return status;
  return queues_->Put(stream,
                      [copy, gpu = stream.gpu,
                       peers = peers_->Of(stream.gpu)](FakeGpuMemory& memory) {
                        return Copy(copy, View(memory, gpu, peers));
                      });
}

}  // namespace tutti
