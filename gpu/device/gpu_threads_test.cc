// Tests all-reduces among GPU devices whose members call on separate threads.

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/executor.h"
#include "tutti/gpu_devices.h"
#include "tutti/local_runtime.h"

namespace tutti {
namespace gpu_threads_test {

using ::testing::Each;
using ::testing::IsEmpty;

constexpr int kNumMembers = 3;
constexpr int64_t kElements = 9;

// Devices on one GPU of a fake runtime, and an executor.
class Group {
 public:
  explicit Group(const std::string& implementation)
      : runtime_({.environment = environment_.get()}) {
    auto made = CreateCudaDevices({.runtime = &runtime_,
                                   .environment = environment_.get(),
                                   .devices_per_gpu = kNumMembers});
    std::vector<std::unique_ptr<Device>> devices;
    for (auto& device : *made) devices.push_back(std::move(device));
    devices_ = *DeviceManager::Create(std::move(devices));
    executors_ = *CreateLocalExecutorMgr(environment_.get(), devices_.get());
    executor_ = executors_->FindOrCreate(/*step_id=*/1);
    CollectiveRequest request;
    request.group_size = kNumMembers;
    request.device_type = CudaDevice::kType;
    request.op = AllReduce{};
    request.dtype = DType::kInt8;
    request.shape = TensorShape::Vector(kElements);
    request.impl_details.implementation = implementation;
    request_ = std::make_shared<const CollectiveRequest>(request);
  }

  CollectiveExecutor& executor() { return *executor_; }
  FakeGpuRuntime& runtime() { return runtime_; }

  // Runs `member` on a thread for each device, and waits for all.
  template <typename Function>
  void RunMembers(Function member) {
    std::vector<std::thread> threads;
    threads.reserve(kNumMembers);
    for (int rank = 0; rank < kNumMembers; ++rank) {
      threads.emplace_back([&, rank] {
        member(static_cast<CudaDevice&>(*devices_->devices()[rank]));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Runs an all-reduce in place, and waits for its end.
  absl::Status Reduce(CudaDevice& device, Tensor tensor) {
    BlockingCounter is_done(1);
    absl::Status ended;
    executor_->ExecuteAsync({.device = &device,
                             .request = request_,
                             .input = tensor,
                             .output = &tensor},
                            [&](absl::Status status) {
                              ended = std::move(status);
                              is_done.DecrementCount();
                            });
    is_done.Wait();
    return ended;
  }

  Tensor Allocate(CudaDevice& device) {
    return *device.Allocate(request_->dtype, request_->shape);
  }

 private:
  const DefaultEnvironment environment_{/*num_workers=*/2};
  FakeGpuRuntime runtime_;
  std::unique_ptr<DeviceManager> devices_;
  std::unique_ptr<CollectiveExecutorMgr> executors_;
  std::shared_ptr<CollectiveExecutor> executor_;
  std::shared_ptr<const CollectiveRequest> request_;
};

// Takes the name of an implementation.
class GpuThreadsTest : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Implementations, GpuThreadsTest,
                         testing::Values("GpuLocalReduce", "RingReduce",
                                         "DoubleTreeReduce"),
                         [](const auto& info) { return info.param; });

TEST_P(GpuThreadsTest, EveryMemberGetsEverySum) {
  Group group(GetParam());
  group.RunMembers([&](CudaDevice& device) {
    Tensor tensor = group.Allocate(device);
    for (int run = 1; run <= 100; ++run) {
      const std::vector<uint8_t> ones(kElements, run % 40);
      EXPECT_THAT(group.runtime().CopyAsync(tensor.mutable_data(), ones.data(),
                                            kElements, device.compute_stream()),
                  IsOk());
      EXPECT_THAT(group.Reduce(device, tensor), IsOk());
      EXPECT_THAT(*group.runtime().Read(tensor.data(), kElements),
                  Each(run % 40 * kNumMembers));
    }
  });
  EXPECT_THAT(group.runtime().Mistakes(), IsEmpty());
}

TEST_P(GpuThreadsTest, AnAbortEndsAllCallsWheneverItComes) {
  for (int num_good = 0; num_good < 20; ++num_good) {
    Group group(GetParam());
    group.RunMembers([&](CudaDevice& device) {
      const bool aborts = device.attributes().name.index == num_good % 3;
      const Tensor tensor = group.Allocate(device);
      absl::Status status;
      for (int run = 0; status.ok(); ++run) {
        if (aborts && run == num_good) {
          group.executor().StartAbort(absl::AbortedError("enough"));
        }
        status = group.Reduce(device, tensor);
      }
      EXPECT_THAT(status, IsAborted("enough"));
    });
    EXPECT_THAT(group.runtime().Mistakes(), IsEmpty());
  }
}

}  // namespace gpu_threads_test
}  // namespace tutti
