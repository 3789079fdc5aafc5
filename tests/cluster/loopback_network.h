#ifndef TUTTI_TESTS_CLUSTER_LOOPBACK_NETWORK_H_
#define TUTTI_TESTS_CLUSTER_LOOPBACK_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "remote/transport.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"
#include "tutti/implementation.h"

namespace tutti {

// Network between tasks of a cluster in one process. Each message is a piece of
// work of `queue`, which determines the messages' order. Bytes arrive in parts
// of `part_elements` elements. Every second part is written to its destination
// directly if the receiver names it. Thread-safe if the queue is.
class LoopbackNetwork {
 public:
  // Reported costs of messages.
  static constexpr CostModel kCosts = {
      .between = {.latency_seconds = 51e-6, .bytes_per_second = 2.5e9}};

  // `queue` outlives the network and must be empty when the network is
  // destroyed.
  LoopbackNetwork(ClusterSpec cluster, WorkQueue* queue, size_t part_elements);
  ~LoopbackNetwork();

  // Transport of a task whose process has this incarnation. Cuts off the task's
  // former transport.
  std::shared_ptr<Transport> Connect(int task, uint64_t incarnation)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Stops all messages from and to the task; unfinished ones end with
  // UNAVAILABLE.
  void Cut(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // Delays the task's calls until ReleaseCalls().
  void HoldCalls(int task) ABSL_LOCKS_EXCLUDED(mu_);
  void ReleaseCalls(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // Delays the task's requests for bytes, and their cancellations, in order,
  // until LetTransfersGo().
  void HoldTransfers(int task) ABSL_LOCKS_EXCLUDED(mu_);
  void LetTransfersGo(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // Leaves the bytes and calls that others send to the task unread until
  // Resume(), as if its process were stopped.
  void Stop(int task) ABSL_LOCKS_EXCLUDED(mu_);
  void Resume(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // Number of calls and requests of all tasks until now.
  int64_t num_calls() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Endpoint;
  class Pull;

  std::shared_ptr<Endpoint> Find(int task) const ABSL_LOCKS_EXCLUDED(mu_);

  // Requests of all tasks that wait for bytes of `task`.
  std::vector<std::shared_ptr<Pull>> PullsFrom(int task)
      ABSL_LOCKS_EXCLUDED(mu_);

  const ClusterSpec cluster_;
  WorkQueue* const queue_;
  const size_t part_elements_;
  mutable Mutex mu_;
  int64_t num_calls_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::shared_ptr<Endpoint>> endpoints_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_LOOPBACK_NETWORK_H_
