#ifndef TUTTI_FRAMEWORK_BASE_MUTEX_H_
#define TUTTI_FRAMEWORK_BASE_MUTEX_H_

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace tutti {

// Standard mutex with annotations, so Clang checks who holds which lock.
// Abseil's mutex has two faults here. Distributions package it with its
// deadlock detector on, which takes a process-wide lock at each lock.
// ThreadSanitizer cannot see into it.
//
// Lock() on a locked mutex first spins for about a microsecond. Most critical
// sections end in that time, and sleeping and waking takes some 20 us.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    if (!mutex_.try_lock()) LockContended();
    is_held_.store(true, std::memory_order_relaxed);
  }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    is_held_.store(false, std::memory_order_relaxed);
    mutex_.unlock();
  }

 private:
  friend class CondVar;

  void LockContended();

  std::mutex mutex_;

  // Approximate copy of the state, for waiting threads to read. A try_lock()
  // would take the cache line from the holder.
  std::atomic<bool> is_held_{false};
};

// Holds a mutex for its own lifetime.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

class CondVar {
 public:
  CondVar() = default;
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // May return without a signal.
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> held(mutex->mutex_, std::adopt_lock);
    mutex->is_held_.store(false, std::memory_order_relaxed);
    condition_.wait(held);
    mutex->is_held_.store(true, std::memory_order_relaxed);
    held.release();
  }
  void SignalAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_BASE_MUTEX_H_
