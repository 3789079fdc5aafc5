#include "gpu/runtime/cuda_host_calls.h"

#include <utility>
#include <vector>

namespace tutti {

CudaHostCalls& CudaHostCalls::Get() {
  static auto& calls = *new CudaHostCalls();
  return calls;
}

void* CudaHostCalls::Add(const void* owner, int gpu, StatusCallback call) {
  MutexLock lock(&mu_);
  calls_.emplace(++last_, Call{owner, gpu, std::move(call)});
  return reinterpret_cast<void*>(last_);  // NOLINT(performance-no-int-to-ptr)
}

void CudaHostCalls::Run(void* call) { Get().End(call, absl::OkStatus()); }

void CudaHostCalls::Fail(void* call, absl::Status status) {
  End(call, std::move(status));
}

void CudaHostCalls::FailAllOf(const void* owner, int gpu,
                              const absl::Status& status) {
  EndWhere(
      [&](const Call& call) { return call.owner == owner && call.gpu == gpu; },
      status);
}

void CudaHostCalls::EndAllOf(const void* owner, const absl::Status& status) {
  EndWhere([&](const Call& call) { return call.owner == owner; }, status);
  MutexLock lock(&mu_);
  while (running_.contains(owner)) has_returned_.Wait(&mu_);
}

void CudaHostCalls::End(void* call, absl::Status status) {
  Call ended;
  {
    MutexLock lock(&mu_);
    const auto found = calls_.find(reinterpret_cast<uintptr_t>(call));
    if (found == calls_.end()) return;
    ended = std::move(found->second);
    calls_.erase(found);
    ++running_[ended.owner];
  }
  RunTaken(std::move(ended), std::move(status));
}

void CudaHostCalls::RunTaken(Call taken, absl::Status status) {
  std::move(taken.call)(std::move(status));
  taken.call = nullptr;
  MutexLock lock(&mu_);
  if (--running_[taken.owner] > 0) return;
  running_.erase(taken.owner);
  has_returned_.SignalAll();
}

void CudaHostCalls::EndWhere(absl::FunctionRef<bool(const Call&)> is_meant,
                             const absl::Status& status) {
  std::vector<Call> ended;
  {
    MutexLock lock(&mu_);
    for (auto call = calls_.begin(); call != calls_.end();) {
      const auto here = call++;
      if (!is_meant(here->second)) continue;
      ++running_[here->second.owner];
      ended.push_back(std::move(here->second));
      calls_.erase(here);
    }
  }
  for (Call& call : ended) RunTaken(std::move(call), status);
}

}  // namespace tutti
