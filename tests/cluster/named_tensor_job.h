#ifndef TUTTI_TESTS_CLUSTER_NAMED_TENSOR_JOB_H_
#define TUTTI_TESTS_CLUSTER_NAMED_TENSOR_JOB_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "tests/cluster/loopback_network.h"
#include "tutti/cluster_runtime.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/named_tensors.h"

namespace tutti {

// The tasks of a cluster in one process, each with a coordinator of named
// tensors, and messages in the order that the environment's queue gives them.
class NamedTensorJob {
 public:
  // What a rank's process has; null: one of the CPU.
  using MakeDevice = std::function<std::unique_ptr<Device>(
      const DeviceAttributes& attributes)>;

  // `environment` outlives the job and what it started. Bytes come in parts of
  // `part_elements`.
  NamedTensorJob(int num_ranks, const Environment& environment,
                 CoordinatorSettings settings, size_t part_elements = 100,
                 MakeDevice make_device = nullptr,
                 size_t max_entries = size_t{1} << 19);

  // Begins to join; over when the queue is.
  void Join();

  int num_ranks() const { return static_cast<int>(runtimes_.size()); }
  Coordinator& at(int rank) { return runtimes_[rank]->coordinator(); }
  ClusterRuntime& runtime(int rank) { return *runtimes_[rank]; }
  LoopbackNetwork& network() { return network_; }

  // The rank's process ends.
  void Destroy(int rank) { runtimes_[rank].reset(); }
  bool is_alive(int rank) const { return runtimes_[rank] != nullptr; }

 private:
  const Environment environment_;
  LoopbackNetwork network_;
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_NAMED_TENSOR_JOB_H_
