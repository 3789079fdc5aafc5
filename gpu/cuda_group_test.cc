// What becomes of collectives among devices on GPUs.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "framework/collective_executor.h"
#include "framework/collective_executor_mgr.h"
#include "framework/device_manager.h"
#include "gmock/gmock.h"
#include "gpu/cuda_devices.h"
#include "gpu/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "resolvers/local_runtime.h"
#include "tests/simulated_environment.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr int kNumDevices = 2;

TEST(CudaGroupTest, WhatWorksInTheHostsMemoryRefusesThatOfGpus) {
  SimulatedEnvironment environment(/*seed=*/1);
  FakeGpuRuntime runtime({.environment = environment.get()});
  std::vector<std::unique_ptr<Device>> devices;
  auto made = CreateCudaDevices({.runtime = &runtime,
                                 .environment = environment.get(),
                                 .devices_per_gpu = kNumDevices});
  ASSERT_THAT(made, IsOk());
  for (auto& device : *made) devices.push_back(std::move(device));
  const auto manager = *DeviceManager::Create(std::move(devices));
  const auto executors =
      *CreateLocalExecutorMgr(environment.get(), manager.get());
  CollectiveRequest request;
  request.group_size = kNumDevices;
  request.device_type = CudaDevice::kType;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(4);
  std::vector<std::optional<absl::Status>> ended(kNumDevices);
  std::vector<Tensor> outputs(kNumDevices);
  for (size_t i = 0; i < kNumDevices; ++i) {
    Device* const device = manager->devices()[i];
    executors->FindOrCreate(/*step_id=*/1)
        ->ExecuteAsync(
            {.device = device,
             .request = std::make_shared<const CollectiveRequest>(request),
             .input = *device->Allocate(request.dtype, request.shape),
             .output = &outputs[i]},
            [&ended, i](absl::Status status) { ended[i] = std::move(status); });
  }
  environment.RunAll();
  for (const auto& status : ended) {
    EXPECT_THAT(status,
                Optional(StatusIs(absl::StatusCode::kUnimplemented,
                                  HasSubstr("works in the host's memory; "
                                            "/job:localhost/replica:0/task:0/"
                                            "device:GPU:"))));
  }
}

}  // namespace
}  // namespace tutti
