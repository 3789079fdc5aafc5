#include "gpu/cuda_host_calls.h"

#include <utility>
#include <vector>

namespace tutti {

CudaHostCalls& CudaHostCalls::Get() {
  static auto& calls = *new CudaHostCalls();
  return calls;
}

void* CudaHostCalls::Add(const void* owner, Work work) {
  MutexLock lock(&mu_);
  calls_.emplace(++last_, Call{owner, std::move(work)});
  return reinterpret_cast<void*>(last_);  // NOLINT(performance-no-int-to-ptr)
}

void CudaHostCalls::Run(void* call) {
  Work work = Get().Take(call);
  if (work) std::move(work)();
}

void CudaHostCalls::Drop(void* call) { (void)Take(call); }

void CudaHostCalls::DropAllOf(const void* owner) {
  std::vector<Work> dropped;  // Destroyed without the lock.
  MutexLock lock(&mu_);
  for (auto call = calls_.begin(); call != calls_.end();) {
    const auto here = call++;
    if (here->second.owner != owner) continue;
    dropped.push_back(std::move(here->second.work));
    calls_.erase(here);
  }
}

Work CudaHostCalls::Take(void* call) {
  MutexLock lock(&mu_);
  const auto found = calls_.find(reinterpret_cast<uintptr_t>(call));
  if (found == calls_.end()) return nullptr;
  Work work = std::move(found->second.work);
  calls_.erase(found);
  return work;
}

}  // namespace tutti
