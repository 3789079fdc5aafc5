#ifndef TUTTI_GPU_TESTING_FAKE_GPU_GROUP_H_
#define TUTTI_GPU_TESTING_FAKE_GPU_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/reduce/reduction_test_data.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
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

inline Bytes Floats(int64_t num_elements, float value) {
  const std::vector<float> values(static_cast<size_t>(num_elements), value);
  const auto* begin = reinterpret_cast<const Bytes::value_type*>(values.data());
  return {begin, begin + values.size() * sizeof(float)};
}

// Sums of float32, without random bits, that a test runs repeatedly.
class Sums {
 public:
  explicit Sums(FakeGpuGroup::Options options, int64_t num_elements = 5)
      : group_(std::move(options)),
        num_elements_(num_elements),
        outputs_(group_.size()) {
    request_ = group_.Request(AllReduce{}, DType::kFloat32, num_elements_);
    for (int rank = 0; rank < group_.size(); ++rank) {
      inputs_.push_back(group_.Allocate(rank, DType::kFloat32, num_elements_));
      outputs_[rank] = group_.Allocate(rank, DType::kFloat32, num_elements_);
    }
  }

  FakeGpuGroup& group() { return group_; }
  int64_t num_elements() const { return num_elements_; }
  CollectiveRequest& request() { return request_; }
  const Tensor& output(int rank) const { return outputs_[rank]; }

  CollectiveArgs Args(int rank) {
    return {.device = &group_.device(rank),
            .request = std::make_shared<const CollectiveRequest>(request_),
            .input = inputs_[rank],
            .output = &outputs_[rank]};
  }

  // Sets all elements of the rank's input to `value`, on the compute stream.
  void Fill(int rank, float value) {
    group_.Write(rank, inputs_[rank], Elements(value));
  }
  void FillAll() {
    for (int rank = 0; rank < group_.size(); ++rank) Fill(rank, Value(rank));
  }
  void Call(int rank) { group_.Call(rank, Args(rank)); }
  void CallAll() {
    for (int rank = 0; rank < group_.size(); ++rank) Call(rank);
  }

  Bytes Elements(float value) const { return Floats(num_elements_, value); }
  static float Value(int rank) { return static_cast<float>(rank + 1); }
  Bytes Sum() const {
    const auto n = static_cast<float>(outputs_.size());
    return Elements(n * (n + 1) / 2);
  }

  // Same as FakeGpuGroup::Remains().
  std::vector<std::string> Remains() {
    inputs_.clear();
    outputs_.clear();
    return group_.Remains();
  }

 private:
  FakeGpuGroup group_;
  const int64_t num_elements_;
  CollectiveRequest request_;
  std::vector<Tensor> inputs_, outputs_;
};

}  // namespace tutti

#endif  // TUTTI_GPU_TESTING_FAKE_GPU_GROUP_H_
