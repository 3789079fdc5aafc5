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

// The tasks of a cluster in one process: what one calls, the other serves as
// work of `queue`, so that messages take whatever order it gives them. Bytes
// come in parts of `part_elements` elements, each second one where it goes, if
// the receiver says where. Thread-safe if the queue is.
class LoopbackNetwork {
 public:
  // What it says that messages cost.
  static constexpr CostModel kCosts = {
      .between = {.latency_seconds = 51e-6, .bytes_per_second = 2.5e9}};

  // `queue` outlives the network; all its work is done before the network goes.
  LoopbackNetwork(ClusterSpec cluster, WorkQueue* queue, size_t part_elements);
  ~LoopbackNetwork();

  // The transport of a task whose process has this incarnation; the one that
  // the task had before is cut off.
  std::shared_ptr<Transport> Connect(int task, uint64_t incarnation)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Nothing goes from or to the task any more; what is under way ends with
  // UNAVAILABLE.
  void Cut(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // The task's calls wait, from now on until they are let go.
  void HoldCalls(int task) ABSL_LOCKS_EXCLUDED(mu_);
  void LetCallsGo(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // The same of its requests for bytes, and their cancellations, which stay in
  // order.
  void HoldTransfers(int task) ABSL_LOCKS_EXCLUDED(mu_);
  void LetTransfersGo(int task) ABSL_LOCKS_EXCLUDED(mu_);

  // Calls and requests so far, of all tasks.
  int64_t num_calls() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Endpoint;
  class Pull;

  std::shared_ptr<Endpoint> Find(int task) const ABSL_LOCKS_EXCLUDED(mu_);

  const ClusterSpec cluster_;
  WorkQueue* const queue_;
  const size_t part_elements_;
  mutable Mutex mu_;
  int64_t num_calls_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::shared_ptr<Endpoint>> endpoints_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_LOOPBACK_NETWORK_H_
