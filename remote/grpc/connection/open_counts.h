#ifndef TUTTI_REMOTE_GRPC_CONNECTION_OPEN_COUNTS_H_
#define TUTTI_REMOTE_GRPC_CONNECTION_OPEN_COUNTS_H_

#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "framework/base/mutex.h"
#include "tutti/cluster_runtime.h"

namespace tutti {

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
  absl::Status Begin(int task) ABSL_LOCKS_EXCLUDED(mu_);
  void End(int task) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const ClusterSpec* const cluster_;
  const std::string things_;
  const int max_;

  Mutex mu_;
  absl::flat_hash_map<int, int> num_open_ ABSL_GUARDED_BY(mu_);  // By task.
};

}  // namespace tutti

#endif  // TUTTI_REMOTE_GRPC_CONNECTION_OPEN_COUNTS_H_
