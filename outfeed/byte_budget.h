#ifndef TUTTI_OUTFEED_BYTE_BUDGET_H_
#define TUTTI_OUTFEED_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"

namespace tutti {

// Shares a number of bytes among several users. At most `limit_bytes` are in
// use, with an exception: a request above the limit is granted when no bytes
// are in use.
//
// Thread-safe. Taking and releasing are one atomic operation each as long as
// nobody waits. Waiters are served in order of arrival, and later requests
// queue behind them: small requests cannot starve a large one.
class ByteBudget {
 public:
  class Waiter {
   public:
    virtual ~Waiter() = default;

    // Called when the waiter has received its bytes. Runs once, with no lock
    // held, on a thread inside Release() or StopWaiting().
    virtual void OnGranted() = 0;
  };

  // REQUIRES: limit_bytes > 0. Requests are below 2^62.
  explicit ByteBudget(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Returns false if there is no room, or if others wait.
  bool TryTake(int64_t num_bytes) {
    return num_waiting_.load() == 0 && TakeIfRoom(num_bytes);
  }

  // Takes the bytes and returns true, or returns false and queues `waiter`. The
  // budget keeps the waiter until it is granted or stops waiting.
  bool TakeOrWait(int64_t num_bytes, std::shared_ptr<Waiter> waiter)
      ABSL_LOCKS_EXCLUDED(mu_);

  void Release(int64_t num_bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // Returns true if the waiter waited: it gets nothing. Returns false if it got
  // its bytes, or is about to.
  bool StopWaiting(const Waiter& waiter) ABSL_LOCKS_EXCLUDED(mu_);

  int64_t used_bytes() const { return used_bytes_.load(); }

 private:
  struct Request {
    int64_t num_bytes = 0;
    std::shared_ptr<Waiter> waiter;
  };

  bool TakeIfRoom(int64_t num_bytes);
  void GrantWaiting() ABSL_LOCKS_EXCLUDED(mu_);

  const int64_t limit_bytes_;
  std::atomic<int64_t> used_bytes_{0};

  // Size of `requests_`. A waiter counts itself here and then reads
  // used_bytes_. A release changes used_bytes_ and then reads this count. One
  // of the two always sees the other.
  std::atomic<int64_t> num_waiting_{0};

  Mutex mu_;
  std::deque<Request> requests_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_BYTE_BUDGET_H_
