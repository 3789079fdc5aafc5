#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gpu/runtime/pinned_pool.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "resolvers/local/group_order.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace cuda_devices_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// GPUs 0 and 1 have NVLink, 1 and 2 a bus, 0 and 2 no link.
PeerLink LinkOf(int gpu, int peer) {
  if (gpu + peer == 1) return PeerLink::kNvLink;
  return gpu + peer == 3 ? PeerLink::kBus : PeerLink::kNone;
}

class CudaDevicesTest : public ::testing::Test {
 protected:
  CudaDevicesOptions Options() {
    return {.runtime = &runtime_,
            .environment = environment_.get(),
            .job = "worker",
            .task = 3,
            .devices_per_gpu = 2};
  }

  SimulatedEnvironment environment_{1};
  FakeGpuRuntime runtime_{
      {.num_gpus = 3, .link = LinkOf, .environment = environment_.get()}};
};

TEST_F(CudaDevicesTest, EachGpuHasSoManyNextToEachOther) {
  auto created = CreateCudaDevices(Options());
  ASSERT_THAT(created, IsOk());
  std::vector<int> gpus;
  for (const auto& device : *created) gpus.push_back(device->gpu());
  EXPECT_THAT(gpus, ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_NE((*created)[0]->compute_stream().handle,
            (*created)[1]->compute_stream().handle);
  std::vector<std::unique_ptr<Device>> devices(
      std::make_move_iterator(created->begin()),
      std::make_move_iterator(created->end()));
  const auto manager = DeviceManager::Create(std::move(devices));
  ASSERT_THAT(manager, IsOk());
  EXPECT_THAT((*manager)->Find("/job:worker/replica:0/task:3/device:GPU:5"),
              IsOk());
}

TEST_F(CudaDevicesTest, LinksSayHowNearTheOthersAre) {
  const auto devices = CreateCudaDevices(Options());
  ASSERT_THAT(devices, IsOk());
  EXPECT_THAT(
      (*devices)[0]->attributes().locality.links,
      ElementsAre(DeviceLink{1, 3}, DeviceLink{2, 2}, DeviceLink{3, 2}));
  EXPECT_THAT((*devices)[3]->attributes().locality.links,
              ElementsAre(DeviceLink{0, 2}, DeviceLink{1, 2}, DeviceLink{2, 3},
                          DeviceLink{4, 1}, DeviceLink{5, 1}));
}

// NVLink joins 0-2, 2-1 and 1-3; all other pairs have a bus.
TEST_F(CudaDevicesTest, RanksFollowNvLinkFromGpuToGpu) {
  const auto link = [](int gpu, int peer) {
    for (const auto& [a, b] : {std::pair(0, 2), {2, 1}, {1, 3}}) {
      if (std::minmax(gpu, peer) == std::minmax(a, b)) return PeerLink::kNvLink;
    }
    return PeerLink::kBus;
  };
  FakeGpuRuntime runtime(
      {.num_gpus = 4, .link = link, .environment = environment_.get()});
  const auto gpus_by_rank = [&](int devices_per_gpu) {
    CudaDevicesOptions options = Options();
    options.runtime = &runtime;
    options.devices_per_gpu = devices_per_gpu;
    const auto devices = *CreateCudaDevices(options);
    std::vector<DeviceAttributes> attributes;
    for (const auto& device : devices) {
      attributes.push_back(device->attributes());
    }
    std::vector<int> gpus;
    for (const int place : DefaultRankOrder(attributes)) {
      gpus.push_back(devices[place]->gpu());
    }
    return gpus;
  };
  EXPECT_THAT(gpus_by_rank(1), ElementsAre(0, 2, 1, 3));
  EXPECT_THAT(gpus_by_rank(2), ElementsAre(0, 0, 2, 2, 1, 1, 3, 3));
}

TEST_F(CudaDevicesTest, KernelsMayUseTheMemoryOfThoseWithALink) {
  const auto mistakes = [this](int from, int to) {
    FakeGpuRuntime runtime(
        {.num_gpus = 3, .link = LinkOf, .environment = environment_.get()});
    CudaDevicesOptions options = Options();
    options.runtime = &runtime;
    const auto devices = *CreateCudaDevices(options);
    CudaDevice& source = *devices[2 * from];
    CudaDevice& target = *devices[2 * to];
    const TensorShape shape = TensorShape::Vector(8);
    Tensor a = *source.Allocate(DType::kInt8, shape);
    Tensor b = *target.Allocate(DType::kInt8, shape);
    EXPECT_THAT(source.Order(source.compute_stream(), target.compute_stream()),
                IsOk());
    EXPECT_THAT(runtime.LaunchCopy({.input = a.mutable_data(),
                                    .outputs = {b.mutable_data()},
                                    .num_bytes = 8},
                                   target.compute_stream()),
                IsOk());
    environment_.RunAll();
    return runtime.Mistakes();
  };
  EXPECT_THAT(mistakes(0, 1), IsEmpty());
  EXPECT_THAT(mistakes(1, 2), IsEmpty());
  EXPECT_THAT(mistakes(0, 2), ElementsAre(HasSubstr("access is not enabled")));
}

TEST_F(CudaDevicesTest, DevicesOnOneGpuNameTheSameUnit) {
  const auto devices = CreateCudaDevices(Options());
  ASSERT_THAT(devices, IsOk());
  std::vector<std::string> units;
  for (const auto& device : *devices) {
    units.push_back(device->attributes().unit);
    EXPECT_THAT(device->attributes().libraries, IsEmpty());
  }
  EXPECT_THAT(units, ElementsAre("0-0", "0-0", "0-1", "0-1", "0-2", "0-2"));
}

TEST_F(CudaDevicesTest, AGpuThatFailsTakesNoStagingFromOthers) {
  const auto devices = CreateCudaDevices(Options());
  ASSERT_THAT(devices, IsOk());
  const auto take = [&](int index) {
    return (*devices)[index]->staging()->Take(8).status();
  };
  runtime_.FailStream((*devices)[0]->compute_stream(),
                      absl::InternalError("illegal address"));
  environment_.RunAll();
  EXPECT_THAT(take(1), StatusIs(absl::StatusCode::kInternal,
                                HasSubstr("illegal address")));
  EXPECT_THAT(take(2), IsOk());
}

// Some MPI libraries work with one GPU only.
TEST_F(CudaDevicesTest, OnlyOneGpuIsOpenToTransportsUnlessTheProgramSaysSo) {
  const auto is_open = [](const CudaDevicesOptions& options) {
    return (*CreateCudaDevices(options))[0]->landing() != nullptr;
  };
  CudaDevicesOptions options = Options();
  EXPECT_FALSE(is_open(options));
  options.opens_memory = true;
  EXPECT_TRUE(is_open(options));
  FakeGpuRuntime single({.environment = environment_.get()});
  options.runtime = &single;
  EXPECT_TRUE(is_open(options));
  options.opens_memory = std::nullopt;
  EXPECT_TRUE(is_open(options));
  options.opens_memory = false;
  EXPECT_FALSE(is_open(options));
}

TEST_F(CudaDevicesTest, OnePeerTooManyCountsAsWithoutALink) {
  runtime_.FailCall(GpuCall::kEnablePeerAccess, 0,
                    absl::OutOfRangeError("too many peers"));
  const auto devices = CreateCudaDevices(Options());
  ASSERT_THAT(devices, IsOk());
  EXPECT_THAT((*devices)[0]->attributes().locality.links,
              ElementsAre(DeviceLink{1, 3}));
  EXPECT_THAT((*devices)[2]->attributes().locality.links, testing::SizeIs(5));
}

// Otherwise copies would be slower for good, without notice.
TEST_F(CudaDevicesTest, LackOfMemoryForAPeerIsNoLackOfALink) {
  runtime_.FailCall(GpuCall::kEnablePeerAccess, 0,
                    absl::ResourceExhaustedError("out of memory"));
  EXPECT_THAT(CreateCudaDevices(Options()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("out of memory")));
}

TEST_F(CudaDevicesTest, WhatFailsIsReturnedAndNothingIsLeft) {
  for (int num_good = 0; num_good < 30; ++num_good) {
    runtime_.FailCall(GpuCall::kCreateStream, num_good,
                      absl::InternalError("no stream"));
    EXPECT_THAT(CreateCudaDevices(Options()),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("no stream")));
  }
  EXPECT_THAT(runtime_.Leaks(), IsEmpty());
}

TEST_F(CudaDevicesTest, WithoutAGpuThereIsNoDevice) {
  FakeGpuRuntime runtime({.num_gpus = 0, .environment = environment_.get()});
  CudaDevicesOptions options = Options();
  options.runtime = &runtime;
  EXPECT_THAT(CreateCudaDevices(options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no GPU")));
}

TEST_F(CudaDevicesTest, WrongOptionsAreRefused) {
  CudaDevicesOptions options = Options();
  options.devices_per_gpu = 0;
  EXPECT_THAT(CreateCudaDevices(options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not 0")));
  EXPECT_THAT(CreateCudaDevices({}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("need a GPU runtime")));
}

}  // namespace cuda_devices_test
}  // namespace tutti
