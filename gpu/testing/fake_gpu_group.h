#ifndef TUTTI_GPU_TESTING_FAKE_GPU_GROUP_H_
#define TUTTI_GPU_TESTING_FAKE_GPU_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {

// Task without NCCL, on its own (FakeNcclTasks); for tests.
class FakeGpuGroup : public FakeNcclTasks {
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

  explicit FakeGpuGroup(Options options)
      : FakeNcclTasks({.seed = options.seed,
                       .gpus_per_task = options.num_gpus,
                       .devices_per_gpu = options.devices_per_gpu,
                       .tasks_with_nccl = 0,
                       .memory_bytes = options.memory_bytes,
                       .link = std::move(options.link),
                       .keeps_host_work = options.keeps_host_work,
                       .on_record = std::move(options.on_record),
                       .opens_memory = true,
                       .most_landing_bytes = options.most_landing_bytes,
                       .is_local = true}) {}

  FakeGpuRuntime& runtime() { return gpus(0); }
  CollectiveExecutor& executor() { return *FakeNcclTasks::executor(0); }

  // Runs everything. No time passes.
  void RunAll() { environment().RunAll(); }

  Tensor Allocate(int rank, DType dtype, int64_t num_elements) {
    return FakeNcclTasks::Allocate(rank, dtype,
                                   TensorShape::Vector(num_elements));
  }

  // Copies the tensor to a new one, on the device's compute stream.
  Tensor Copy(int rank, const Tensor& tensor) {
    Tensor copy = Allocate(rank, tensor.dtype(), tensor.num_elements());
    EXPECT_THAT(runtime().LaunchCopy({.input = tensor.data(),
                                      .outputs = {copy.mutable_data()},
                                      .num_bytes = tensor.size_bytes()},
                                     device(rank).compute_stream()),
                IsOk());
    return copy;
  }

  Bytes Read(const Tensor& tensor) { return FakeNcclTasks::Read(0, tensor); }

  void Call(int rank, CollectiveArgs args, StatusCallback done = nullptr) {
    FakeNcclTasks::Call(rank, std::move(args), /*step=*/1, std::move(done));
  }
  void Call(int rank, const CollectiveRequest& request, Tensor input,
            Tensor* output) {
    Call(rank, {.request = std::make_shared<const CollectiveRequest>(request),
                .input = std::move(input),
                .output = output});
  }

  using FakeNcclTasks::ended;
  std::optional<absl::Status> ended(int rank) const { return ended()[rank]; }
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_GPU_GROUP_H_
