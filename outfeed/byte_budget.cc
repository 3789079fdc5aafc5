#include "outfeed/byte_budget.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {

bool ByteBudget::TakeOrWait(int64_t num_bytes, std::shared_ptr<Waiter> waiter) {
  MutexLock lock(&mu_);
  ++num_waiting_;
  if (requests_.empty() && TakeIfRoom(num_bytes)) {
    --num_waiting_;
    return true;
  }
  requests_.push_back({num_bytes, std::move(waiter)});
  return false;
}

void ByteBudget::Release(int64_t num_bytes) {
  used_bytes_ -= num_bytes;
  if (num_waiting_.load() > 0) GrantWaiting();
}

bool ByteBudget::StopWaiting(const Waiter& waiter) {
  std::shared_ptr<Waiter> stopped;
  {
    MutexLock lock(&mu_);
    const auto found = std::find_if(requests_.begin(), requests_.end(),
                                    [&waiter](const Request& request) {
                                      return request.waiter.get() == &waiter;
                                    });
    if (found == requests_.end()) return false;
    stopped = std::move(found->waiter);
    requests_.erase(found);
    --num_waiting_;
  }
  GrantWaiting();  // Requests behind the stopped one may have room.
  return true;
}

bool ByteBudget::TakeIfRoom(int64_t num_bytes) {
  int64_t used = used_bytes_.load();
  while (used == 0 || num_bytes <= limit_bytes_ - used) {
    if (used_bytes_.compare_exchange_weak(used, used + num_bytes)) return true;
  }
  return false;
}

void ByteBudget::GrantWaiting() {
  std::vector<std::shared_ptr<Waiter>> granted;
  {
    MutexLock lock(&mu_);
    while (!requests_.empty() && TakeIfRoom(requests_.front().num_bytes)) {
      granted.push_back(std::move(requests_.front().waiter));
      requests_.pop_front();
      --num_waiting_;
    }
  }
  for (const auto& waiter : granted) waiter->OnGranted();
}

}  // namespace tutti
