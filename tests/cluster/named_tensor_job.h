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

// Tasks of a cluster in one process, each with a coordinator of named tensors.
// The environment's queue determines the order of messages.
class NamedTensorJob {
 public:
  // Makes the device of a rank's process; null: a CPU device.
  using MakeDevice = std::function<std::unique_ptr<Device>(
      const DeviceAttributes& attributes)>;

  // `environment` outlives the job and everything that the job started. Bytes
  // arrive in parts of `part_elements` elements.
  NamedTensorJob(int num_ranks, const Environment& environment,
                 CoordinatorSettings settings, size_t part_elements = 100,
                 MakeDevice make_device = nullptr,
                 size_t max_entries = size_t{1} << 19);

  // Begins to join; joining ends when the queue is empty.
  void Join();

  int num_ranks() const { return static_cast<int>(runtimes_.size()); }
  Coordinator& at(int rank) { return runtimes_[rank]->coordinator(); }
  ClusterRuntime& runtime(int rank) { return *runtimes_[rank]; }
  LoopbackNetwork& network() { return network_; }

  // Ends the rank's process.
  void Destroy(int rank) { runtimes_[rank].reset(); }
  bool is_alive(int rank) const { return runtimes_[rank] != nullptr; }

 private:
  const Environment environment_;
  LoopbackNetwork network_;
  std::vector<std::unique_ptr<ClusterRuntime>> runtimes_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_CLUSTER_NAMED_TENSOR_JOB_H_
