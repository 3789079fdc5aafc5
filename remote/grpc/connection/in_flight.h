#ifndef TUTTI_REMOTE_GRPC_CONNECTION_IN_FLIGHT_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_IN_FLIGHT_H_

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"

namespace tutti {

// Counts operations under way, so that the owner of their resources can wait
// for their end. Thread-safe.
class InFlight {
 public:
  InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  // Begins an operation. Returns false after Close().
  bool Begin() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (closed_) return false;
    ++count_;
    return true;
  }

  // Begins an operation that follows from one under way; works after Close()
  // too.
  void BeginMore() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    ++count_;
  }

  void End() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (--count_ == 0) zero_.SignalAll();
  }

  void Close() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    closed_ = true;
  }

  // Blocks until all operations have ended.
  void Wait() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    while (count_ > 0) zero_.Wait(&mu_);
  }

 private:
  Mutex mu_;
  CondVar zero_;
  int count_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_IN_FLIGHT_H_
