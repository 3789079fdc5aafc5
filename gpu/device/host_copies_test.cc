#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "framework/reduce/reduction_test_data.h"
#include "gmock/gmock.h"
#include "gpu/device/gpu_pass_end.h"
#include "gpu/testing/fake_gpu_group.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/local_runtime.h"
#include "tutti/tensor.h"

namespace tutti {
namespace host_copies_test {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

// Tests copies from devices on GPUs to the host, the order of streams of the
// caller, and controllers of such devices.

// Result of a copy to the host.
struct Copied {
  int num_calls = 0;
  absl::StatusOr<std::vector<Tensor>> arrays;

  Device::ArraysCallback Done() {
    return [this](auto copies) {
      ++num_calls;
      arrays = std::move(copies);
    };
  }
};

Bytes BytesOf(const Tensor& tensor) {
  const auto* begin = reinterpret_cast<const uint8_t*>(tensor.data());
  return {begin, begin + tensor.size_bytes()};
}

TEST(HostCopiesTest, HoldWhatTheComputeStreamLeaves) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    FakeGpuGroup group({.seed = seed});
    const Tensor on_host = *Tensor::Allocate(DType::kInt8, TensorShape());
    for (const int64_t size : {0, 1, 7, 1001}) {
      const Bytes bytes = RandomElements(DType::kUint8, size, seed);
      Copied copied;
      {
        const Tensor first = group.Allocate(0, DType::kUint8, size);
        const Tensor second = group.Allocate(0, DType::kUint8, 3);
        group.Write(0, first, bytes);
        group.Write(0, second, {1, 2, 3});
        group.device(0).CopyToHost({first, on_host, second}, copied.Done());
      }
      EXPECT_EQ(copied.num_calls, 0);
      group.RunAll();
      ASSERT_EQ(copied.num_calls, 1);
      ASSERT_THAT(copied.arrays, IsOk());
      ASSERT_THAT(*copied.arrays, SizeIs(3));
      EXPECT_EQ(BytesOf((*copied.arrays)[0]), bytes);
      EXPECT_EQ((*copied.arrays)[0].shape(), TensorShape::Vector(size));
      EXPECT_EQ((*copied.arrays)[1].data(), on_host.data());
      EXPECT_EQ(BytesOf((*copied.arrays)[2]), Bytes({1, 2, 3}));
    }
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
}

TEST(HostCopiesTest, WithoutAnArrayOfTheDeviceAreNone) {
  FakeGpuGroup group({});
  const Tensor on_host = *Tensor::Allocate(DType::kInt8, TensorShape());
  Copied copied;
  group.device(0).CopyToHost({on_host, Tensor()}, copied.Done());
  ASSERT_EQ(copied.num_calls, 1);
  ASSERT_THAT(copied.arrays, IsOk());
  EXPECT_EQ((*copied.arrays)[0].data(), on_host.data());
}

TEST(HostCopiesTest, KeepTheArrayUntilTheyAreMade) {
  FakeGpuGroup group({});
  Tensor memory = group.Allocate(0, DType::kInt8, 8);
  bool is_free = false;
  Copied copied;
  group.device(0).CopyToHost(
      {*Tensor::Wrap(DType::kInt8, TensorShape::Vector(8),
                     memory.mutable_data(), [&] { is_free = true; })},
      copied.Done());
  EXPECT_FALSE(is_free);
  group.RunAll();
  EXPECT_TRUE(is_free);
  EXPECT_THAT(copied.arrays, IsOk());
}

TEST(HostCopiesTest, RefuseMemoryOfAnotherGpu) {
  FakeGpuGroup group({.num_gpus = 2, .devices_per_gpu = 1});
  const Tensor here = group.Allocate(0, DType::kInt8, 8);
  const Tensor there = group.Allocate(1, DType::kInt16, 8);
  Copied copied;
  group.device(0).CopyToHost({here, there}, copied.Done());
  EXPECT_THAT(copied.arrays,
              IsInvalidArgument("array 1 (int16[8])", "device:GPU:0"));
  EXPECT_EQ(*group.device(0).PlaceOf(here), TensorPlace::kDevice);
  EXPECT_EQ(*group.device(0).PlaceOf(there), TensorPlace::kElsewhere);
}

TEST(HostCopiesTest, OutliveTheirDevice) {
  SimulatedEnvironment environment(1);
  FakeGpuRuntime runtime({.environment = environment.get()});
  auto devices = *CreateCudaDevices(
      {.runtime = &runtime, .environment = environment.get()});
  Copied copied;
  devices[0]->CopyToHost(
      {*devices[0]->Allocate(DType::kInt8, TensorShape::Vector(8))},
      copied.Done());
  devices.clear();
  environment.RunAll();
  EXPECT_THAT(copied.arrays, IsOk());
  copied.arrays = std::vector<Tensor>();
  environment.RunAll();
  EXPECT_THAT(runtime.Mistakes(), IsEmpty());
  EXPECT_THAT(runtime.Leaks(), IsEmpty());
}

// Returns true if the failed call ended the copy with its error.
bool FailsWithACall(GpuCall call, int num_good) {
  SCOPED_TRACE(absl::StrCat("call ", static_cast<int>(call), " after ",
                            num_good, " good ones"));
  FakeGpuGroup group({});
  Tensor first = group.Allocate(0, DType::kInt8, 8);
  Tensor second = group.Allocate(0, DType::kInt8, 9);
  group.RunAll();
  group.runtime().FailCall(call, num_good, absl::InternalError("no luck"));
  Copied copied;
  group.device(0).CopyToHost({first, second}, copied.Done());
  group.RunAll();
  group.environment().Advance(GpuPassEnd::kLookEvery);
  EXPECT_EQ(copied.num_calls, 1);
  const bool has_failed = !copied.arrays.ok();
  if (has_failed) {
    EXPECT_THAT(copied.arrays, IsInternal("no luck"));
  }
  first = second = Tensor();
  copied.arrays = std::vector<Tensor>();
  if (has_failed) {
    EXPECT_THAT(group.Remains(), IsEmpty());
  }
  return has_failed;
}

TEST(HostCopiesTest, FailWithTheCallThatFailsAndLeaveNothing) {
  for (const auto& [call, num_fatal] :
       std::vector<std::pair<GpuCall, int>>{{GpuCall::kOwnerOf, 2},
                                            {GpuCall::kAllocatePinned, 2},
                                            {GpuCall::kCreateEvent, 2},
                                            {GpuCall::kRecordEvent, 2},
                                            {GpuCall::kWaitForEvent, 1},
                                            {GpuCall::kCopyAsync, 2},
                                            {GpuCall::kCallHost, 0}}) {
    for (int num_good = 0; num_good < num_fatal; ++num_good) {
      EXPECT_TRUE(FailsWithACall(call, num_good));
    }
    EXPECT_FALSE(FailsWithACall(call, num_fatal));
  }
}

TEST(HostCopiesTest, EndWithTheErrorOfASpoiltGpu) {
  FakeGpuGroup group({});
  const Tensor array = group.Allocate(0, DType::kInt8, 8);
  group.runtime().FailStream(group.device(0).compute_stream(),
                             absl::InternalError("illegal address"));
  Copied copied;
  group.device(0).CopyToHost({array}, copied.Done());
  group.RunAll();
  group.environment().Advance(GpuPassEnd::kLookEvery);
  EXPECT_EQ(copied.num_calls, 1);
  EXPECT_THAT(copied.arrays, IsInternal("illegal address"));
  EXPECT_EQ(group.environment().num_alarms(), 0);
}

// Members call on streams of the caller. These go on without a wait of the
// host.
TEST(CallersStreamsTest, FollowAndAreFollowedWithoutTheHost) {
  for (const std::string name :
       {"RingReduce", "TreeReduce", "GpuLocalReduce"}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      SCOPED_TRACE(absl::StrCat(name, ", seed ", seed));
      Sums sums({.seed = seed, .devices_per_gpu = 3});
      sums.request().impl_details.implementation = name;
      FakeGpuGroup& group = sums.group();
      std::vector<OwnedGpuStream> streams;
      std::vector<Bytes> sources;
      std::vector<Tensor> results;
      for (int rank = 0; rank < group.size(); ++rank) {
        CudaDevice& device = group.device(rank);
        streams.push_back(*NewStream(group.runtime(), device.gpu()));
        results.push_back(
            group.Allocate(rank, DType::kFloat32, sums.num_elements()));
        sources.push_back(sums.Elements(Sums::Value(rank)));
      }
      for (int rank = 0; rank < group.size(); ++rank) {
        CudaDevice& device = group.device(rank);
        const GpuStream mine = streams[rank].get();
        Tensor input = sums.Args(rank).input;
        EXPECT_THAT(device.Order(device.compute_stream(), mine), IsOk());
        EXPECT_THAT(group.runtime().CopyAsync(input.mutable_data(),
                                              sources[rank].data(),
                                              input.size_bytes(), mine),
                    IsOk());
        EXPECT_THAT(device.Order(mine, device.compute_stream()), IsOk());
        sums.Call(rank);
      }
      for (int rank = 0; rank < group.size(); ++rank) {
        CudaDevice& device = group.device(rank);
        const GpuStream mine = streams[rank].get();
        for (const GpuStream theirs :
             {device.collective_stream(), device.compute_stream()}) {
          EXPECT_THAT(device.Order(theirs, mine), IsOk());
        }
        EXPECT_THAT(group.runtime().LaunchCopy(
                        {.input = sums.output(rank).data(),
                         .outputs = {results[rank].mutable_data()},
                         .num_bytes = results[rank].size_bytes()},
                        mine),
                    IsOk());
      }
      group.RunAll();
      EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
      for (const Tensor& result : results) {
        EXPECT_EQ(group.Read(result), sums.Sum());
      }
      streams.clear();
      results.clear();
      EXPECT_THAT(sums.Remains(), IsEmpty());
    }
  }
}

// Three devices on the first of two GPUs, and three on the second.
class GpuControllerTest : public testing::Test {
 protected:
  GpuControllerTest() {
    std::vector<std::unique_ptr<Device>> devices;
    auto gpu_devices = *CreateCudaDevices({.runtime = &gpus_,
                                           .environment = environment_.get(),
                                           .devices_per_gpu = 3});
    for (auto& device : gpu_devices) {
      devices.push_back(std::move(device));
    }
    devices_ = *DeviceManager::Create(std::move(devices));
    controller_ =
        std::make_unique<SingleController>(environment_.get(), devices_.get());
  }

  CudaDevice& device(int i) const {
    return static_cast<CudaDevice&>(*devices_->devices()[i]);
  }

  // Tensor i, on device i: i, i, ...
  Tensor Make(int i, int64_t num_elements) {
    Tensor tensor =
        *device(i).Allocate(DType::kFloat32, TensorShape::Vector(num_elements));
    if (num_elements == 0) return tensor;
    sources_.push_back(
        std::make_unique<Bytes>(Floats(num_elements, static_cast<float>(i))));
    EXPECT_THAT(
        gpus_.CopyAsync(tensor.mutable_data(), sources_.back()->data(),
                        tensor.size_bytes(), device(i).compute_stream()),
        IsOk());
    return tensor;
  }
  std::vector<Tensor> Tensors(int size, int64_t num_elements) {
    std::vector<Tensor> tensors;
    for (int i = 0; i < size; ++i) tensors.push_back(Make(i, num_elements));
    return tensors;
  }

  const DefaultEnvironment environment_{/*num_workers=*/2};
  std::vector<std::unique_ptr<Bytes>> sources_;
  FakeGpuRuntime gpus_{{.num_gpus = 2, .environment = environment_.get()}};
  std::unique_ptr<DeviceManager> devices_;
  std::unique_ptr<SingleController> controller_;
};

TEST_F(GpuControllerTest, ReducesTensorsWhereTheyAre) {
  for (const std::string name :
       {"", "RingReduce", "ShuffleReduce", "GpuLocalReduce"}) {
    for (const int size : {2, 3, 6}) {
      for (const int64_t num_elements : {0, 1, 7, 1001}) {
        SCOPED_TRACE(absl::StrCat(name, ", ", size, " of ", num_elements));
        const auto sums = controller_->AllReduce(Tensors(size, num_elements),
                                                 {.algorithm = name});
        ASSERT_THAT(sums, IsOk());
        ASSERT_THAT(*sums, SizeIs(size));
        if (num_elements == 0) continue;
        for (int i = 0; i < size; ++i) {
          const Tensor& sum = (*sums)[i];
          EXPECT_EQ(*device(i).PlaceOf(sum), TensorPlace::kDevice);
          EXPECT_EQ(
              gpus_.Read(sum.data(), sum.size_bytes()).value(),
              Floats(num_elements, static_cast<float>(size * (size - 1) / 2)));
        }
      }
    }
  }
  EXPECT_THAT(gpus_.Mistakes(), IsEmpty());
}

TEST_F(GpuControllerTest, TouchesNoTensorThatIsElsewhere) {
  std::vector<Tensor> tensors = Tensors(6, 2);
  std::swap(tensors[2], tensors[3]);
  EXPECT_THAT(
      controller_->AllReduce(tensors),
      IsInvalidArgument("tensor 2 is on another device", "device:GPU:2"));
  tensors = Tensors(2, 2);
  tensors[1] = *Tensor::Allocate(DType::kFloat32, TensorShape::Vector(2));
  EXPECT_THAT(controller_->AllReduce(tensors),
              IsInvalidArgument("tensor 1 is in host memory", "device:GPU:1"));
  EXPECT_THAT(controller_->AllReduce(std::vector<Tensor>(7, Make(0, 2))),
              IsInvalidArgument("got 7 tensors for 6 devices"));
  EXPECT_THAT(controller_->AllReduce(Tensors(2, 2), {.num_tasks = 2}),
              IsInvalidArgument("num_tasks is 2"));
  EXPECT_THAT(gpus_.Mistakes(), IsEmpty());
}

}  // namespace host_copies_test
}  // namespace tutti
