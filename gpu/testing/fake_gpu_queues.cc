#include "gpu/testing/fake_gpu_queues.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

// True while this thread is inside a call of CallHost().
thread_local bool is_host_call = false;

void RunHostCall(StatusCallback call, absl::Status status) {
  is_host_call = true;
  std::move(call)(std::move(status));
  is_host_call = false;
}

template <class Handle>
uintptr_t NumberOf(Handle handle) {
  return reinterpret_cast<uintptr_t>(handle.handle);
}

void* HandleOf(uintptr_t number) {
  return reinterpret_cast<void*>(number);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

absl::Status FakeGpuQueues::Begin(int call, absl::string_view name, int gpu) {
  std::vector<StatusCallback> unreported;
  absl::Status status;
  {
    MutexLock lock(&mu_);
    ++num_calls_[call];
    status = CheckCall(call, name, gpu);
    const auto found = unreported_.find(gpu);
    if (found != unreported_.end() && !is_host_call && !keeps_host_calls_) {
      unreported.swap(found->second);
    }
  }
  for (StatusCallback& host : unreported) RunHostCall(std::move(host), status);
  return status;
}

int64_t FakeGpuQueues::NumCalls(int call) {
  MutexLock lock(&mu_);
  return num_calls_[call];
}

absl::Status FakeGpuQueues::CheckCall(int call, absl::string_view name,
                                      int gpu) {
  const std::string where = absl::StrCat(name, " on GPU ", gpu, ": ");
  if (is_host_call) {
    mistakes_.push_back(absl::StrCat(where, "called inside CallHost()"));
    return absl::FailedPreconditionError(mistakes_.back());
  }
  if (gpu < 0 || gpu >= static_cast<int>(spoilt_.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "there are ", spoilt_.size(), " GPUs"));
  }
  if (!spoilt_[gpu].ok()) {
    return absl::Status(spoilt_[gpu].code(),
                        absl::StrCat(where, spoilt_[gpu].message()));
  }
  const auto fault = faults_.find(call);
  if (fault == faults_.end() || fault->second.num_good-- > 0) {
    return absl::OkStatus();
  }
  const absl::Status status = fault->second.status;
  if (--fault->second.num_bad == 0) faults_.erase(fault);
  return absl::Status(status.code(), absl::StrCat(where, status.message()));
}

absl::Status FakeGpuQueues::CheckMayCall(absl::string_view name) {
  if (!is_host_call) return absl::OkStatus();
  AddMistake(absl::StrCat(name, ": called inside CallHost()"));
  return absl::FailedPreconditionError(
      absl::StrCat(name, ": called inside CallHost()"));
}

void FakeGpuQueues::FailCall(int call, int num_good, absl::Status status,
                             int num_bad) {
  MutexLock lock(&mu_);
  faults_[call] = {
      .num_good = num_good, .num_bad = num_bad, .status = std::move(status)};
}

GpuStream FakeGpuQueues::CreateStream(int gpu) {
  MutexLock lock(&mu_);
  streams_[++last_handle_].gpu = gpu;
  return {gpu, HandleOf(last_handle_)};
}

GpuEvent FakeGpuQueues::CreateEvent(int gpu) {
  MutexLock lock(&mu_);
  events_[++last_handle_].gpu = gpu;
  return {gpu, HandleOf(last_handle_)};
}

absl::Status FakeGpuQueues::DestroyStream(GpuStream stream) {
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Stream* const found, Find(stream));
  found->is_destroyed = true;
  EraseEnded();
  return absl::OkStatus();
}

absl::Status FakeGpuQueues::DestroyEvent(GpuEvent event) {
  MutexLock lock(&mu_);
  RETURN_IF_ERROR(Find(event).status());
  events_.erase(NumberOf(event));
  return absl::OkStatus();
}

void FakeGpuQueues::EraseEnded() {
  std::erase_if(streams_, [](const auto& entry) {
    const Stream& stream = entry.second;
    return stream.is_destroyed && stream.items.empty() && !stream.is_with_host;
  });
}

int FakeGpuQueues::NumStreams() {
  MutexLock lock(&mu_);
  return static_cast<int>(streams_.size());
}

absl::Status FakeGpuQueues::Record(GpuEvent event, GpuStream stream) {
  const auto marker = std::make_shared<Marker>();
  {
    MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(Event* const found, Find(event));
    if (found->gpu != stream.gpu) {
      return absl::InvalidArgumentError(
          absl::StrCat("an event of GPU ", found->gpu,
                       " is recorded on a stream of GPU ", stream.gpu));
    }
    found->last = marker;
  }
  return Put(stream, [marker](FakeGpuMemory&) {
    marker->is_done = true;
    return absl::OkStatus();
  });
}

absl::Status FakeGpuQueues::Wait(GpuStream stream, GpuEvent event) {
  std::shared_ptr<Marker> marker;
  {
    MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(Event* const found, Find(event));
    marker = found->last;
  }
  if (marker == nullptr) return absl::OkStatus();
  Item item;
  item.waits_for = std::move(marker);
  return Add(stream, item);
}

absl::StatusOr<bool> FakeGpuQueues::IsDone(GpuEvent event) {
  MutexLock lock(&mu_);
  ASSIGN_OR_RETURN(Event* const found, Find(event));
  return found->last == nullptr || found->last->is_done;
}

absl::Status FakeGpuQueues::CheckPeer(absl::string_view name, int gpu,
                                      int peer) {
  const absl::Status status = FirstError(peer);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(name, " on GPU ", gpu, ": ",
                                                  status.message()));
}

absl::Status FakeGpuQueues::FirstError(int gpu) {
  MutexLock lock(&mu_);
  return spoilt_.at(static_cast<size_t>(gpu));
}

absl::Status FakeGpuQueues::Put(GpuStream stream, Operation operation) {
  Item item;
  item.operation = std::move(operation);
  return Add(stream, item);
}

absl::Status FakeGpuQueues::PutFault(GpuStream stream, absl::Status status) {
  Item item;
  item.fault = std::move(status);
  return Add(stream, item);
}

absl::Status FakeGpuQueues::PutGate(GpuStream stream, Gate gate) {
  Item item;
  item.gate = std::move(gate);
  return Add(stream, item);
}

absl::Status FakeGpuQueues::PutHostCall(GpuStream stream, StatusCallback call) {
  Item item;
  item.host_call = std::move(call);
  absl::Status status = Add(stream, item);
  if (!status.ok()) RunHostCall(std::move(item.host_call), status);
  return status;
}

void FakeGpuQueues::End() {
  std::map<int, std::vector<StatusCallback>> unreported;
  {
    MutexLock lock(&mu_);
    for (int gpu = 0; gpu < static_cast<int>(spoilt_.size()); ++gpu) {
      Spoil(gpu, absl::AbortedError("the GPU runtime ended before"));
    }
    unreported.swap(unreported_);
  }
  Destroy();
  for (auto& [gpu, calls] : unreported) {
    for (StatusCallback& call : calls) {
      RunHostCall(std::move(call),
                  absl::AbortedError("the GPU runtime ended before"));
    }
  }
}

void FakeGpuQueues::WithMemory(
    absl::FunctionRef<void(FakeGpuMemory& memory)> function) {
  MutexLock lock(&mu_);
  function(memory_);
}

void FakeGpuQueues::AddMistake(std::string mistake) {
  MutexLock lock(&mu_);
  mistakes_.push_back(std::move(mistake));
}

std::vector<std::string> FakeGpuQueues::Mistakes() {
  MutexLock lock(&mu_);
  return mistakes_;
}

std::vector<std::string> FakeGpuQueues::Leaks() {
  MutexLock lock(&mu_);
  std::vector<std::string> leaks = memory_.Leaks();
  for (const auto& [handle, stream] : streams_) {
    if (stream.is_destroyed) continue;
    leaks.push_back(absl::StrCat("a stream of GPU ", stream.gpu));
  }
  for (const auto& [handle, event] : events_) {
    leaks.push_back(absl::StrCat("an event of GPU ", event.gpu));
  }
  return leaks;
}

int FakeGpuQueues::NumEvents() {
  MutexLock lock(&mu_);
  return static_cast<int>(events_.size());
}

absl::StatusOr<FakeGpuQueues::Stream*> FakeGpuQueues::Find(GpuStream stream) {
  const auto found = streams_.find(NumberOf(stream));
  if (found != streams_.end() && !found->second.is_destroyed) {
    return &found->second;
  }
  mistakes_.push_back(
      absl::StrCat("there is no such stream of GPU ", stream.gpu));
  return absl::InvalidArgumentError(mistakes_.back());
}

absl::StatusOr<FakeGpuQueues::Event*> FakeGpuQueues::Find(GpuEvent event) {
  const auto found = events_.find(NumberOf(event));
  if (found != events_.end()) return &found->second;
  mistakes_.push_back(
      absl::StrCat("there is no such event of GPU ", event.gpu));
  return absl::InvalidArgumentError(mistakes_.back());
}

absl::Status FakeGpuQueues::Add(GpuStream stream, Item& item) {
  {
    MutexLock lock(&mu_);
    ASSIGN_OR_RETURN(Stream* const found, Find(stream));
    if (!spoilt_[stream.gpu].ok()) return spoilt_[stream.gpu];
    found->items.push_back(std::move(item));
  }
  ScheduleTurn();
  return absl::OkStatus();
}

bool FakeGpuQueues::CanGoOn(const Stream& stream) {
  if (stream.items.empty() || stream.is_with_host) return false;
  const Item& item = stream.items.front();
  if (item.gate != nullptr) return item.gate->load();
  return item.waits_for == nullptr || item.waits_for->is_done;
}

std::vector<FakeGpuQueues::Stream*> FakeGpuQueues::Runnable() {
  std::vector<Stream*> runnable;
  for (auto& [handle, stream] : streams_) {
    if (CanGoOn(stream)) runnable.push_back(&stream);
  }
  return runnable;
}

void FakeGpuQueues::Turn() {
  const uint64_t draw = environment_.random->Next();
  Stream* stream = nullptr;
  std::optional<Item> host;
  {
    MutexLock lock(&mu_);
    has_turn_ = false;
    const std::vector<Stream*> runnable = Runnable();
    if (runnable.empty()) return;
    stream = runnable[draw % runnable.size()];
    host = TakeHostCallOrRun(*stream);
    EraseEnded();
  }
  Destroy();
  ScheduleTurn();
  if (!host.has_value()) return;
  RunHostCall(std::move(host->host_call), absl::OkStatus());
  {
    MutexLock lock(&mu_);
    stream->is_with_host = false;
    EraseEnded();
  }
  ScheduleTurn();
}

std::optional<FakeGpuQueues::Item> FakeGpuQueues::TakeHostCallOrRun(
    Stream& stream) {
  Item item = std::move(stream.items.front());
  stream.items.pop_front();
  if (item.host_call) {
    stream.is_with_host = true;
    return item;
  }
  absl::Status status = item.fault;
  if (item.operation) {
    status = std::move(item.operation)(memory_);
    if (!status.ok()) mistakes_.emplace_back(status.message());
  }
  if (!status.ok()) Spoil(stream.gpu, status);
  return std::nullopt;
}

void FakeGpuQueues::ScheduleTurn() {
  {
    MutexLock lock(&mu_);
    if (has_turn_ || Runnable().empty()) return;
    has_turn_ = true;
  }
  environment_.queue->Schedule([self = shared_from_this()] { self->Turn(); });
}

void FakeGpuQueues::Spoil(int gpu, const absl::Status& status) {
  if (spoilt_[gpu].ok()) spoilt_[gpu] = status;
  for (auto& [handle, stream] : streams_) {
    if (stream.gpu != gpu) continue;
    for (Item& item : stream.items) {
      if (item.host_call) unreported_[gpu].push_back(std::move(item.host_call));
      dropped_.push_back(std::move(item));
    }
    stream.items.clear();
  }
}

void FakeGpuQueues::Destroy() {
  std::vector<Item> dropped;
  MutexLock lock(&mu_);
  dropped.swap(dropped_);
}

}  // namespace tutti
