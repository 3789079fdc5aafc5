#include <memory>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti {

// Number of events that have not happened yet. Thread-safe.
class BlockingCounter::Count {
 public:
  explicit Count(int count) : count_(count) {}

  void Decrement() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (--count_ == 0) zero_.SignalAll();
  }

  void AwaitZero() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    while (count_ > 0) zero_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar zero_;
  int count_ ABSL_GUARDED_BY(mu_);
};

BlockingCounter::BlockingCounter(int count)
    : count_(std::make_unique<Count>(count)) {}

BlockingCounter::~BlockingCounter() = default;

void BlockingCounter::DecrementCount() { count_->Decrement(); }

void BlockingCounter::Wait() { count_->AwaitZero(); }

}  // namespace tutti
