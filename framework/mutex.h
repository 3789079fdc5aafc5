#ifndef TUTTI_FRAMEWORK_MUTEX_H_
#define TUTTI_FRAMEWORK_MUTEX_H_

#include "absl/base/thread_annotations.h"

#ifdef TUTTI_TSAN
#include <pthread.h>
#else
#include "absl/synchronization/mutex.h"
#endif

namespace tutti {

// Mutex, MutexLock and CondVar are Abseil's. ThreadSanitizer cannot see into
// Abseil's packaged library, so that its build (TUTTI_TSAN) puts the same
// names on pthreads.
#ifndef TUTTI_TSAN

using absl::CondVar;
using absl::Mutex;
using absl::MutexLock;

#else

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  ~Mutex() { pthread_mutex_destroy(&mutex_); }
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { pthread_mutex_lock(&mutex_); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { pthread_mutex_unlock(&mutex_); }
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

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
  ~CondVar() { pthread_cond_destroy(&condition_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void Wait(Mutex* mutex) { pthread_cond_wait(&condition_, &mutex->mutex_); }
  void Signal() { pthread_cond_signal(&condition_); }
  void SignalAll() { pthread_cond_broadcast(&condition_); }

 private:
  pthread_cond_t condition_ = PTHREAD_COND_INITIALIZER;
};

#endif

}  // namespace tutti

#endif  // TUTTI_FRAMEWORK_MUTEX_H_
