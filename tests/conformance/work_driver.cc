#include "tests/conformance/work_driver.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "tutti/environment.h"

namespace tutti::conformance {
namespace {

// Counts the work that it passes on. Thread-safe.
class CountingQueue : public WorkQueue {
 public:
  explicit CountingQueue(WorkQueue* target) : target_(target) {}

  void Schedule(Work work) override ABSL_LOCKS_EXCLUDED(mu_) {
    {
      MutexLock lock(&mu_);
      ++num_left_;
    }
    target_->Schedule([this, work = std::move(work)]() mutable {
      std::move(work)();
      work = nullptr;  // What it holds goes before it counts as done.
      MutexLock lock(&mu_);
      if (--num_left_ == 0) none_left_.SignalAll();
    });
  }
  int num_workers() const override { return target_->num_workers(); }

  void WaitUntilNoneIsLeft() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    while (num_left_ > 0) none_left_.Wait(&mu_);
  }

 private:
  WorkQueue* const target_;
  Mutex mu_;
  CondVar none_left_;
  int64_t num_left_ ABSL_GUARDED_BY(mu_) = 0;
};

class ThreadsDriver : public WorkDriver {
 public:
  explicit ThreadsDriver(int num_threads)
      : num_threads_(num_threads),
        threads_(num_threads),
        queue_(threads_.get().queue),
        environment_{&queue_, threads_.get().clock, threads_.get().random} {}
  ~ThreadsDriver() override { queue_.WaitUntilNoneIsLeft(); }

  const Environment& environment() const override { return environment_; }
  void RunAll() override { queue_.WaitUntilNoneIsLeft(); }
  std::string ToString() const override {
    return absl::StrCat(num_threads_, " threads");
  }

 private:
  const int num_threads_;
  DefaultEnvironment threads_;
  CountingQueue queue_;
  const Environment environment_;
};

}  // namespace

std::string SeededDriver::ToString() const {
  return absl::StrCat("work order of seed ", seed_);
}

std::unique_ptr<WorkDriver> OnThreads(int num_threads) {
  return std::make_unique<ThreadsDriver>(num_threads);
}

}  // namespace tutti::conformance
