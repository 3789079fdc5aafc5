#ifndef TUTTI_OUTFEED_BYTE_BUDGET_H_
#define TUTTI_OUTFEED_BYTE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"

namespace tutti {

// A number of bytes that several share. Never are more than `limit_bytes` in
// use, but that a request above the limit is granted when none are.
//
// Thread-safe. Taking and releasing are one atomic operation each as long as
// nobody waits. Who waits is served in order of arrival, and others behind, so
// that a large request is not overtaken for ever.
class ByteBudget {
 public:
  class Waiter {
   public:
    virtual ~Waiter() = default;

    // The bytes that it waited for are its own. Runs once, with no lock held,
    // on the thread of who released enough or stopped waiting.
    virtual void OnGranted() = 0;
  };

  // REQUIRES: limit_bytes > 0. Requests are below 2^62.
  explicit ByteBudget(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // False if there is no room, or others wait.
  bool TryTake(int64_t num_bytes) {
    return num_waiting_.load() == 0 && TakeIfRoom(num_bytes);
  }

  // False: the waiter, which is held until then, will be granted them.
  bool TakeOrWait(int64_t num_bytes, std::shared_ptr<Waiter> waiter)
      ABSL_LOCKS_EXCLUDED(mu_);

  void Release(int64_t num_bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // True if the waiter waited and now will not be granted anything; false if it
  // was, or is about to be.
  bool StopWaiting(const Waiter& waiter) ABSL_LOCKS_EXCLUDED(mu_);

  int64_t used_bytes() const { return used_bytes_.load(); }
  int64_t limit_bytes() const { return limit_bytes_; }

 private:
  struct Request {
    int64_t num_bytes = 0;
    std::shared_ptr<Waiter> waiter;
  };

  bool TakeIfRoom(int64_t num_bytes);
  void GrantWaiting() ABSL_LOCKS_EXCLUDED(mu_);

  const int64_t limit_bytes_;
  std::atomic<int64_t> used_bytes_{0};

  // Of `requests_`. Who begins to wait counts itself and then looks at
  // used_bytes_; who releases does it the other way round: one sees the other.
  std::atomic<int64_t> num_waiting_{0};

  Mutex mu_;
  std::deque<Request> requests_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_OUTFEED_BYTE_BUDGET_H_
