#ifndef TUTTI_GPU_TESTING_FAKE_GPU_GROUP_H_
#define TUTTI_GPU_TESTING_FAKE_GPU_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "tests/doubles/simulated_environment.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"

namespace tutti {

// Group of all devices on the GPUs of a fake runtime, in rank order; for tests.
// Streams run only in RunAll(). Belongs to one thread.
class FakeGpuGroup {
 public:
  struct Options {
    uint64_t seed = 1;  // Decides the order in which streams run.
    int num_gpus = 1;
    int devices_per_gpu = 2;
    int64_t memory_bytes = int64_t{1} << 24;
    size_t most_landing_bytes = size_t{1} << 24;
    std::function<PeerLink(int gpu, int peer)> link;
    bool keeps_host_work = false;
    std::function<absl::Status(GpuStream stream)> on_record;
  };

  explicit FakeGpuGroup(Options options);
  ~FakeGpuGroup();
  FakeGpuGroup(const FakeGpuGroup&) = delete;
  FakeGpuGroup& operator=(const FakeGpuGroup&) = delete;

  int size() const { return static_cast<int>(devices_->devices().size()); }
  SimulatedEnvironment& environment() { return environment_; }
  FakeGpuRuntime& runtime() { return runtime_; }
  CollectiveExecutor& executor() { return *executor_; }
  CudaDevice& device(int rank);
  void RunAll() { environment_.RunAll(); }

  // Makes a request of all devices.
  CollectiveRequest Request(CollectiveOp op, DType dtype,
                            int64_t num_elements) const;

  // Allocates a tensor of the device, with random bits until a Write().
  Tensor Allocate(int rank, DType dtype, int64_t num_elements);

  // Puts `bytes` into the tensor, on the device's compute stream.
  void Write(int rank, const Tensor& tensor, Bytes bytes);

  // Copies the tensor to a new one, on the device's compute stream.
  Tensor Copy(int rank, const Tensor& tensor);

  // Returns the present bytes. Fails the test if the memory is not there.
  Bytes Read(const Tensor& tensor) const;

  // Calls on the rank's device. The status goes to ended(rank), or to `done`.
  // Fails the test if events of a device are left when the last call ends.
  void Call(int rank, CollectiveArgs args);
  void Call(int rank, CollectiveArgs args, StatusCallback done);
  void Call(int rank, const CollectiveRequest& request, Tensor input,
            Tensor* output);

  // Status of the rank's last call; nothing while it runs.
  std::optional<absl::Status>& ended(int rank) { return ended_[rank]; }
  std::vector<std::optional<absl::Status>>& ended() { return ended_; }

  // Destroys everything. Returns what is left: mistakes and leaks of the
  // runtime.
  std::vector<std::string> Remains();

 private:
  SimulatedEnvironment environment_;
  FakeGpuRuntime runtime_;
  std::unique_ptr<DeviceManager> devices_;
  std::unique_ptr<CollectiveExecutorMgr> executors_;
  std::shared_ptr<CollectiveExecutor> executor_;
  std::vector<std::optional<absl::Status>> ended_;
  int num_running_ = 0;  // Calls under way.
  std::vector<std::unique_ptr<Bytes>> sources_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_GPU_GROUP_H_
