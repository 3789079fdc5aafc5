#include "gpu/passes/gpu_local_pass.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "gmock/gmock.h"
#include "gpu/testing/fake_gpu_group.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/executor.h"
#include "tutti/implementation.h"
#include "tutti/local_runtime.h"

namespace tutti {
namespace gpu_local_pass_test {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr int64_t kElements = 4;
constexpr uint64_t kSeeds = 20;

// Hook that PlanCopies() calls, if set, before it plans copies of the first
// member's input to all outputs.
absl::AnyInvocable<void(const GpuMembers&)>& Hook() {
  static absl::AnyInvocable<void(const GpuMembers&)> hook;
  return hook;
}

absl::StatusOr<GpuPlan> PlanCopies(const GpuMembers& members) {
  if (Hook() != nullptr) Hook()(members);
  std::vector<std::byte*> outputs;
  for (int rank = 0; rank < members.size(); ++rank) {
    outputs.push_back(members.output(rank));
  }
  GpuPlan plan;
  AppendCopies(members.input(0), outputs, members.context(0).input.size_bytes(),
               &plan.launches);
  return plan;
}

class Copier : public GpuLocalCollective {
 public:
  Copier() : GpuLocalCollective(&PlanCopies) {}
};

REGISTER_COLLECTIVE(TestCopies, Implemented<Copier>(GpuLocalTraits(
                                    "copies", {CollectiveType::kAllReduce})));

// Needs of a leader whose version demands less of the devices.
ImplementationTraits TraitsWithoutNeeds() {
  ImplementationTraits traits =
      GpuLocalTraits("copies", {CollectiveType::kAllReduce});
  traits.device_needs = {};
  return traits;
}

REGISTER_COLLECTIVE(TestCopiesAnywhere,
                    Implemented<Copier>(TraitsWithoutNeeds()));

CollectiveRequest CopyRequest(FakeGpuGroup& group) {
  CollectiveRequest request =
      group.Request(AllReduce{}, DType::kInt8, kElements);
  request.impl_details.implementation = "TestCopies";
  return request;
}

TEST(GpuLocalCollectiveTest, MemoryThatTheFirstOneDoesNotReachIsLeftAlone) {
  FakeGpuGroup group(
      {.num_gpus = 3, .devices_per_gpu = 1, .link = [](int a, int b) {
         return a + b == 2 ? PeerLink::kNone : PeerLink::kBus;
       }});
  auto request = CopyRequest(group);
  request.impl_details.implementation = "TestCopiesAnywhere";
  std::vector<Tensor> outputs(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    group.Call(rank, request, group.Allocate(rank, DType::kInt8, kElements),
               &outputs[rank]);
  }
  group.RunAll();
  EXPECT_THAT(group.ended(),
              Each(Optional(IsFailedPrecondition(
                  "device:GPU:0 does not reach that of "
                  "/job:localhost/replica:0/task:0/device:GPU:2"))));
  outputs.clear();
  EXPECT_THAT(group.Remains(), IsEmpty());
}

TEST(GpuLocalCollectiveTest, WhatFailsJustBeforeTheLaunchTouchesNothing) {
  FakeGpuGroup group({});
  Hook() = [](const GpuMembers& members) {
    members.context(0).executor->StartAbort(absl::AbortedError("enough"));
  };
  const auto request = CopyRequest(group);
  std::vector<Tensor> outputs;
  for (int rank = 0; rank < group.size(); ++rank) {
    outputs.push_back(group.Allocate(rank, DType::kInt8, kElements));
    group.Write(rank, outputs[rank], Bytes(kElements, 7));
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    group.Call(rank, request, group.Allocate(rank, DType::kInt8, kElements),
               &outputs[rank]);
  }
  Hook() = nullptr;
  EXPECT_THAT(group.ended(),
              Each(Optional(StatusIs(absl::StatusCode::kAborted, "enough"))));
  group.RunAll();
  for (const Tensor& output : outputs) {
    EXPECT_THAT(group.Read(output), Each(7));
  }
  outputs.clear();
  EXPECT_THAT(group.Remains(), IsEmpty());
}

// Each member calls the second collective first; it waits for the launch of the
// first one.
TEST(GpuLocalCollectiveTest, WhatDependsOnAnotherReadsItsResults) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    FakeGpuGroup group({.seed = seed});
    auto first = CopyRequest(group);
    auto second = first;
    second.instance_key = 1;
    second.impl_details.dependencies = {{first.group_key, first.instance_key}};
    std::vector<Tensor> inputs, between, outputs(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      inputs.push_back(group.Allocate(rank, DType::kInt8, kElements));
      between.push_back(group.Allocate(rank, DType::kInt8, kElements));
      group.Write(rank, inputs[rank], Bytes(kElements, 5 + rank));
      group.Call(rank, second, between[rank], &outputs[rank]);
    }
    int num_ended = 0;
    for (int rank = 0; rank < group.size(); ++rank) {
      group.Call(rank,
                 {.request = std::make_shared<const CollectiveRequest>(first),
                  .input = inputs[rank],
                  .output = &between[rank]},
                 [&](const absl::Status& status) {
                   EXPECT_THAT(status, IsOk());
                   ++num_ended;
                 });
    }
    group.RunAll();
    EXPECT_EQ(num_ended, group.size());
    EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
    for (const Tensor& output : outputs) {
      EXPECT_THAT(group.Read(output), Each(5));
    }
  }
}

// A device of type GPU that is unknown to CUDA.
class OtherGpu : public Device {
 public:
  OtherGpu()
      : Device({.name = {.job = "localhost", .type = CudaDevice::kType}}) {}
  absl::StatusOr<Tensor> Allocate(DType dtype,
                                  const TensorShape& shape) override {
    return Tensor::Allocate(dtype, shape);
  }
};

TEST(GpuLocalCollectiveTest, DevicesOfAnotherKindAreRefused) {
  SimulatedEnvironment environment(/*seed=*/1);
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(std::make_unique<OtherGpu>());
  const auto manager = *DeviceManager::Create(std::move(devices));
  const auto executors =
      *CreateLocalExecutorMgr(environment.get(), manager.get());
  CollectiveRequest request;
  request.group_size = 1;
  request.device_type = CudaDevice::kType;
  request.op = AllReduce{};
  request.shape = TensorShape::Vector(kElements);
  Device* const device = manager->devices()[0];
  Tensor output;
  std::optional<absl::Status> ended;
  executors->FindOrCreate(/*step_id=*/1)
      ->ExecuteAsync(
          {.device = device,
           .request = std::make_shared<const CollectiveRequest>(request),
           .input = *device->Allocate(request.dtype, request.shape),
           .output = &output},
          [&](absl::Status status) { ended = std::move(status); });
  environment.RunAll();
  EXPECT_THAT(ended,
              Optional(IsInvalidArgument("device:GPU:0 is another one")));
}

}  // namespace gpu_local_pass_test
}  // namespace tutti
