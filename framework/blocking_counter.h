#ifndef TUTTI_FRAMEWORK_BLOCKING_COUNTER_H_
#define TUTTI_FRAMEWORK_BLOCKING_COUNTER_H_

#include "absl/base/thread_annotations.h"
#include "framework/mutex.h"

namespace tutti {

// Lets one thread, which may block, wait for a number of events. Thread-safe;
// may be destroyed as soon as Wait() returns.
class BlockingCounter {
 public:
  explicit BlockingCounter(int count) : count_(count) {}
  BlockingCounter(const BlockingCounter&) = delete;
  BlockingCounter& operator=(const BlockingCounter&) = delete;

  void DecrementCount() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (--count_ == 0) zero_.SignalAll();
  }

  void Wait() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    while (count_ > 0) zero_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar zero_;
  int count_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BLOCKING_COUNTER_H_
