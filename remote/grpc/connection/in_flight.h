#ifndef TUTTI_REMOTE_GRPC_CONNECTION_IN_FLIGHT_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_IN_FLIGHT_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "tutti/cluster_runtime.h"

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

// Counts the open calls or streams of each task at this one. Thread-safe.
class OpenCounts {
 public:
  // Each task may have `max`. Errors call them `things`. The cluster outlives
  // this object.
  OpenCounts(const ClusterSpec* cluster, std::string things, int max)
      : cluster_(cluster), things_(std::move(things)), max_(max) {}
  OpenCounts(const OpenCounts&) = delete;
  OpenCounts& operator=(const OpenCounts&) = delete;

  // Errors: RESOURCE_EXHAUSTED if the task has too many; do not call End()
  // then.
  absl::Status Begin(int task) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    int& num_open = num_open_[task];
    if (num_open >= max_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          cluster_->Label(task), " has ", num_open, " ", things_, " open at ",
          cluster_->Label(cluster_->this_task), ", no more are taken"));
    }
    ++num_open;
    return absl::OkStatus();
  }

  void End(int task) ABSL_LOCKS_EXCLUDED(mu_) {
    MutexLock lock(&mu_);
    const auto found = num_open_.find(task);
    if (--found->second == 0) num_open_.erase(found);
  }

 private:
  const ClusterSpec* const cluster_;
  const std::string things_;
  const int max_;

  Mutex mu_;
  absl::flat_hash_map<int, int> num_open_ ABSL_GUARDED_BY(mu_);  // By task.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_IN_FLIGHT_H_
