#ifndef TUTTI_REMOTE_GRPC_CONNECTION_IN_FLIGHT_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_IN_FLIGHT_H_

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"

namespace tutti {

// Counts what is under way, so that whoever owns what it uses can wait for its
// end. Thread-safe.
class InFlight {
 public:
  InFlight() = default;
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  // False after Close(): nothing may begin any more.
  bool Begin() ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    if (closed_) return false;
    ++count_;
    return true;
  }

  // What follows from something that is under way begins after Close() too.
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

  // Blocks until all has ended.
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
