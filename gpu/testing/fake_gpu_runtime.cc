#include "gpu/testing/fake_gpu_runtime.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "framework/base/status_macros.h"
#include "gpu/testing/fake_gpu_memory.h"
#include "gpu/testing/fake_gpu_queues.h"
#include "tutti/reduction.h"

namespace tutti {
namespace {

int Number(GpuCall call) { return static_cast<int>(call); }

// Names in the order of GpuCall.
const char* NameOf(GpuCall call) {
  constexpr const char* kNames[] = {"CreateStream",
                                    "CreateEvent",
                                    "RecordEvent",
                                    "WaitForEvent",
                                    "AllocateAsync",
                                    "FreeAsync",
                                    "AllocatePinned",
                                    "AllocatePinnedOnGpu",
                                    "CopyAsync",
                                    "CallHost",
                                    "LaunchReduce",
                                    "LaunchCopy",
                                    "EnablePeerAccess",
                                    "IsDone",
                                    "Properties",
                                    "LinkBetween",
                                    "Put",
                                    "PutGate",
                                    "OwnerOf",
                                    "CallOn"};
  return kNames[Number(call)];
}

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
      ASSIGN_OR_RETURN(uint8_t* const found, Access(address, num_bytes));
      into->push_back(found);
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
  RETURN_IF_ERROR(view.AccessAll(reduction.inputs, num_bytes, &inputs));
  RETURN_IF_ERROR(view.AccessAll(reduction.outputs, num_bytes, &outputs));
  const bool divides = IsFloating(reduction.dtype) || IsMean(reduction);
  ReduceMany({.kind = reduction.kind,
              .dtype = reduction.dtype,
              .inputs = inputs,
              .outputs = outputs,
              .num_elements = reduction.num_elements,
              .divisor = divides ? reduction.divisor : 1});
  if (divides || reduction.divisor == 1) return absl::OkStatus();
  for (uint8_t* output : outputs) {
    DivideBy(reduction.dtype, output, reduction.num_elements,
             reduction.divisor);
  }
  return absl::OkStatus();
}

absl::Status Copy(const GpuCopy& copy, const View& view) {
  ASSIGN_OR_RETURN(const uint8_t* const input,
                   view.Access(copy.input, copy.num_bytes));
  std::vector<uint8_t*> outputs;
  RETURN_IF_ERROR(view.AccessAll(copy.outputs, copy.num_bytes, &outputs));
  CopyToMany(input, outputs, {}, copy.num_bytes);
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
  RETURN_IF_ERROR(Begin(GpuCall::kPut, stream.gpu));
  return queues_->Put(stream, std::move(operation));
}

absl::Status FakeGpuRuntime::PutGate(
    GpuStream stream, std::shared_ptr<const std::atomic<bool>> gate) {
  RETURN_IF_ERROR(Begin(GpuCall::kPutGate, stream.gpu));
  return queues_->PutGate(stream, std::move(gate));
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
  RETURN_IF_ERROR(queues_->CheckMayCall("NumGpus"));
  return options_.num_gpus;
}

absl::StatusOr<GpuProperties> FakeGpuRuntime::Properties(int gpu) {
  RETURN_IF_ERROR(Begin(GpuCall::kProperties, gpu));
  return GpuProperties{.name = "Fake",
                       .bus_id = absl::StrCat("0000:0", gpu, ":00.0"),
                       .uuid = absl::StrCat(options_.host, "-", gpu),
                       .num_multiprocessors = 1,
                       .memory_bytes = options_.memory_bytes};
}

absl::StatusOr<PeerLink> FakeGpuRuntime::LinkBetween(int gpu, int peer) {
  for (const int one : {gpu, peer}) {
    RETURN_IF_ERROR(Begin(GpuCall::kLinkBetween, one));
  }
  if (gpu == peer || options_.link == nullptr) return PeerLink::kNvLink;
  return options_.link(gpu, peer);
}

absl::Status FakeGpuRuntime::EnablePeerAccess(int gpu, int peer) {
  RETURN_IF_ERROR(Begin(GpuCall::kEnablePeerAccess, gpu));
  ASSIGN_OR_RETURN(const PeerLink link, LinkBetween(gpu, peer));
  if (link == PeerLink::kNone) {
    return absl::FailedPreconditionError(absl::StrCat(
        "EnablePeerAccess: GPU ", gpu, " has no link to GPU ", peer));
  }
  peers_->Add(gpu, peer);
  return absl::OkStatus();
}

absl::StatusOr<GpuStream> FakeGpuRuntime::CreateStream(int gpu) {
  RETURN_IF_ERROR(Begin(GpuCall::kCreateStream, gpu));
  return queues_->CreateStream(gpu);
}

absl::Status FakeGpuRuntime::DestroyStream(GpuStream stream) {
  RETURN_IF_ERROR(queues_->CheckMayCall("DestroyStream"));
  return queues_->DestroyStream(stream);
}

absl::StatusOr<GpuEvent> FakeGpuRuntime::CreateEvent(int gpu) {
  RETURN_IF_ERROR(Begin(GpuCall::kCreateEvent, gpu));
  return queues_->CreateEvent(gpu);
}

absl::Status FakeGpuRuntime::DestroyEvent(GpuEvent event) {
  RETURN_IF_ERROR(queues_->CheckMayCall("DestroyEvent"));
  return queues_->DestroyEvent(event);
}

absl::Status FakeGpuRuntime::RecordEvent(GpuEvent event, GpuStream stream) {
  RETURN_IF_ERROR(Begin(GpuCall::kRecordEvent, stream.gpu));
  if (options_.on_record != nullptr) {
    RETURN_IF_ERROR(options_.on_record(stream));
  }
  return queues_->Record(event, stream);
}

absl::Status FakeGpuRuntime::FirstError(int gpu) {
  return queues_->FirstError(gpu);
}

absl::StatusOr<bool> FakeGpuRuntime::IsDone(GpuEvent event) {
  RETURN_IF_ERROR(Begin(GpuCall::kIsDone, event.gpu));
  return queues_->IsDone(event);
}

absl::Status FakeGpuRuntime::WaitForEvent(GpuStream stream, GpuEvent event) {
  RETURN_IF_ERROR(Begin(GpuCall::kWaitForEvent, stream.gpu));
  RETURN_IF_ERROR(queues_->CheckPeer("WaitForEvent", stream.gpu, event.gpu));
  return queues_->Wait(stream, event);
}

absl::Status FakeGpuRuntime::Begin(GpuCall call, int gpu) const {
  return queues_->Begin(Number(call), NameOf(call), gpu);
}

absl::StatusOr<void*> FakeGpuRuntime::Reserve(GpuCall call, int gpu,
                                              size_t num_bytes) {
  absl::StatusOr<void*> memory;
  queues_->WithMemory([&](FakeGpuMemory& all) {
    const int64_t left = options_.memory_bytes - all.UsedBytes(gpu);
    if (num_bytes == 0 || num_bytes > static_cast<uint64_t>(left)) {
      memory = absl::ResourceExhaustedError(
          absl::StrCat(NameOf(call), " on GPU ", gpu, ": ", num_bytes,
                       " bytes of ", left, " that are left"));
    } else {
      memory = all.Reserve(gpu, num_bytes);
    }
  });
  return memory;
}

absl::StatusOr<void*> FakeGpuRuntime::AllocateAsync(size_t num_bytes,
                                                    GpuStream stream) {
  RETURN_IF_ERROR(Begin(GpuCall::kAllocateAsync, stream.gpu));
  ASSIGN_OR_RETURN(void* const memory,
                   Reserve(GpuCall::kAllocateAsync, stream.gpu, num_bytes));
  RETURN_IF_ERROR(queues_->Put(stream, [memory](FakeGpuMemory& all) {
    all.Begin(memory);
    return absl::OkStatus();
  }));
  return memory;
}

absl::Status FakeGpuRuntime::FreeAsync(void* memory, GpuStream stream) {
  RETURN_IF_ERROR(Begin(GpuCall::kFreeAsync, stream.gpu));
  absl::Status status;
  queues_->WithMemory(
      [&](FakeGpuMemory& all) { status = all.CheckCanEnd(memory); });
  RETURN_IF_ERROR(status);
  return queues_->Put(stream,
                      [memory](FakeGpuMemory& all) { return all.End(memory); });
}

absl::StatusOr<PinnedMemory> FakeGpuRuntime::AllocatePinned(size_t num_bytes,
                                                            int gpu) {
  RETURN_IF_ERROR(Begin(GpuCall::kAllocatePinned, gpu));
  PinnedMemory memory = {.gpu = gpu};
  queues_->WithMemory(
      [&](FakeGpuMemory& all) { memory.data = all.AllocatePinned(num_bytes); });
  return memory;
}

absl::StatusOr<PinnedMemory> FakeGpuRuntime::AllocatePinnedOnGpu(
    size_t num_bytes, int gpu) {
  RETURN_IF_ERROR(Begin(GpuCall::kAllocatePinnedOnGpu, gpu));
  ASSIGN_OR_RETURN(void* const data,
                   Reserve(GpuCall::kAllocatePinnedOnGpu, gpu, num_bytes));
  queues_->WithMemory([&](FakeGpuMemory& all) {
    if (options_.host_may_touch) all.LetHostTouch(data);
    all.Begin(data);
  });
  return PinnedMemory{.gpu = gpu, .data = data, .is_on_gpu = true};
}

absl::Status FakeGpuRuntime::FreePinned(PinnedMemory memory) {
  RETURN_IF_ERROR(queues_->CheckMayCall("FreePinned"));
  absl::Status status;
  queues_->WithMemory([&](FakeGpuMemory& all) {
    status = memory.is_on_gpu ? all.CheckCanEnd(memory.data)
                              : all.FreePinned(memory.data);
    if (status.ok() && memory.is_on_gpu) status = all.End(memory.data);
  });
  if (!status.ok()) queues_->AddMistake(std::string(status.message()));
  return status;
}

absl::StatusOr<int> FakeGpuRuntime::OwnerOf(const void* memory, int gpu) {
  RETURN_IF_ERROR(Begin(GpuCall::kOwnerOf, gpu));
  static_assert(FakeGpuMemory::kHost == kHost);
  int owner = kHost;
  queues_->WithMemory([&](FakeGpuMemory& all) { owner = all.OwnerOf(memory); });
  return owner;
}

absl::Status FakeGpuRuntime::CallOn(int gpu,
                                    absl::FunctionRef<absl::Status()> launch) {
  RETURN_IF_ERROR(Begin(GpuCall::kCallOn, gpu));
  return launch();
}

absl::Status FakeGpuRuntime::CopyAsync(void* to, const void* from,
                                       size_t num_bytes, GpuStream stream) {
  RETURN_IF_ERROR(Begin(GpuCall::kCopyAsync, stream.gpu));
  int source = FakeGpuMemory::kHost;
  queues_->WithMemory(
      [&](FakeGpuMemory& memory) { source = memory.OwnerOf(from); });
  if (source != FakeGpuMemory::kHost) {
    RETURN_IF_ERROR(queues_->CheckPeer("CopyAsync", stream.gpu, source));
  }
  return queues_->Put(
      stream, [to, from, num_bytes](FakeGpuMemory& memory) -> absl::Status {
        ASSIGN_OR_RETURN(const uint8_t* const bytes,
                         memory.Access(from, num_bytes));
        ASSIGN_OR_RETURN(uint8_t* const target, memory.Access(to, num_bytes));
        std::copy_n(bytes, num_bytes, target);
        return absl::OkStatus();
      });
}

absl::Status FakeGpuRuntime::CallHost(StatusCallback call, GpuStream stream) {
  const absl::Status status = Begin(GpuCall::kCallHost, stream.gpu);
  if (status.ok()) return queues_->PutHostCall(stream, std::move(call));
  std::move(call)(status);
  return status;
}

absl::Status FakeGpuRuntime::LaunchReduce(const GpuReduction& reduction,
                                          GpuStream stream) {
  const absl::Status status = CheckReduction(reduction);
  if (!status.ok() || reduction.num_elements == 0) return status;
  RETURN_IF_ERROR(Begin(GpuCall::kLaunchReduce, stream.gpu));
  return queues_->Put(stream,
                      [reduction, gpu = stream.gpu,
                       peers = peers_->Of(stream.gpu)](FakeGpuMemory& memory) {
                        return Reduce(reduction, View(memory, gpu, peers));
                      });
}

absl::Status FakeGpuRuntime::LaunchCopy(const GpuCopy& copy, GpuStream stream) {
  const absl::Status status = CheckCopy(copy);
  if (!status.ok() || copy.num_bytes == 0) return status;
  RETURN_IF_ERROR(Begin(GpuCall::kLaunchCopy, stream.gpu));
  return queues_->Put(stream,
                      [copy, gpu = stream.gpu,
                       peers = peers_->Of(stream.gpu)](FakeGpuMemory& memory) {
                        return Copy(copy, View(memory, gpu, peers));
                      });
}

}  // namespace tutti
