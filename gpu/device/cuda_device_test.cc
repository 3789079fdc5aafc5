#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gpu/device/cuda_device_options.h"
#include "gpu/runtime/pinned_pool.h"
#include "gpu/testing/fake_gpu_group.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gpu/testing/fake_nccl_tasks.h"
#include "gtest/gtest.h"
#include "resolvers/local/group_order.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/collective.h"
#include "tutti/device.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/implementation.h"
#include "tutti/reduction.h"
#include "tutti/tensor.h"

namespace tutti {
namespace cuda_device_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using ::testing::SizeIs;

constexpr uint64_t kSeeds = 20;
constexpr int64_t kElements = 16;

// A device on GPU 0 of a fake runtime.
class OneDevice {
 public:
  explicit OneDevice(uint64_t seed, int64_t memory_bytes = 1 << 20,
                     int64_t freed_ahead_bytes = 1 << 20)
      : environment_(seed),
        runtime_(
            {.memory_bytes = memory_bytes, .environment = environment_.get()}),
        device_(*CudaDevice::Create(
            {.attributes = {.name = {.job = "worker", .type = "GPU"}},
             .runtime = &runtime_,
             .environment = environment_.get(),
             .freed_ahead_bytes = freed_ahead_bytes,
             .staging = *PinnedPool::Create({.runtime = &runtime_})})) {}

  SimulatedEnvironment& environment() { return environment_; }
  FakeGpuRuntime& runtime() { return runtime_; }
  CudaDevice& device() { return *device_; }
  void RunAll() { environment_.RunAll(); }
  void Destroy() { device_.reset(); }

  Tensor Allocate() {
    return *device_->Allocate(DType::kFloat32, TensorShape::Vector(kElements));
  }

  // Sets every element of `tensor` to `value`.
  void Fill(const Tensor& tensor, float value, GpuStream stream) {
    auto& source = *sources_.emplace_back(
        std::make_unique<std::vector<float>>(kElements, value));
    EXPECT_THAT(runtime_.CopyAsync(Data(tensor), source.data(),
                                   tensor.size_bytes(), stream),
                IsOk());
  }

  void Sum(const Tensor& a, const Tensor& b, const Tensor& into,
           GpuStream stream) {
    EXPECT_THAT(runtime_.LaunchReduce({.inputs = {Data(a), Data(b)},
                                       .outputs = {Data(into)},
                                       .num_elements = kElements},
                                      stream),
                IsOk());
  }

  std::vector<float> Read(const Tensor& tensor) {
    const auto bytes = runtime_.Read(tensor.data(), tensor.size_bytes());
    EXPECT_THAT(bytes, IsOk());
    if (!bytes.ok()) return std::vector<float>(kElements);
    std::vector<float> values(kElements);
    std::memcpy(values.data(), bytes->data(), bytes->size());
    return values;
  }

  static void* Data(Tensor tensor) { return tensor.mutable_data(); }

 private:
  SimulatedEnvironment environment_;
  FakeGpuRuntime runtime_;
  std::unique_ptr<CudaDevice> device_;
  std::vector<std::unique_ptr<std::vector<float>>> sources_;
};

TEST(CudaDeviceTest, EachOfItsStreamsMayUseANewTensorAtOnce) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    OneDevice one(seed);
    CudaDevice& device = one.device();
    for (const GpuStream stream :
         {device.compute_stream(), device.collective_stream(),
          device.copy_stream()}) {
      const Tensor tensor = one.Allocate();
      one.Fill(tensor, 5, stream);
      one.RunAll();
      EXPECT_THAT(one.Read(tensor), Each(5));
    }
    EXPECT_THAT(one.runtime().Mistakes(), IsEmpty());
  }
}

TEST(CudaDeviceTest, MemoryOutlivesWhatItsStreamsHoldWhenTheTensorGoes) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    OneDevice one(seed);
    CudaDevice& device = one.device();
    {
      const Tensor tensor = one.Allocate();
      one.Fill(tensor, 1, device.compute_stream());
      one.Fill(tensor, 2, device.collective_stream());
      one.Fill(tensor, 3, device.copy_stream());
    }
    one.RunAll();
    EXPECT_THAT(one.runtime().Mistakes(), IsEmpty());
    EXPECT_EQ(one.runtime().UsedBytes(0), 0);
    EXPECT_THAT(device.free_status(), IsOk());
  }
}

// Blocks the collective stream, frees memory that it uses, and allocates other
// memory. Returns true if the compute stream goes on meanwhile.
bool OthersGoOn(int64_t freed_ahead_bytes) {
  OneDevice one(1, /*memory_bytes=*/1 << 20, freed_ahead_bytes);
  CudaDevice& device = one.device();
  const Tensor next = one.Allocate();
  one.RunAll();
  bool others_went_on = false;
  EXPECT_THAT(one.runtime().CallHost(
                  [&](const absl::Status&) {
                    one.RunAll();
                    others_went_on = one.Read(next)[0] == 2;
                  },
                  device.collective_stream()),
              IsOk());
  one.Fill(one.Allocate(), 1, device.collective_stream());
  one.Allocate();
  one.Fill(next, 2, device.compute_stream());
  one.RunAll();
  EXPECT_THAT(one.Read(next), Each(2));
  EXPECT_THAT(one.runtime().Mistakes(), IsEmpty());
  return others_went_on;
}

TEST(CudaDeviceTest, AllocatingDoesNotMakeStreamsWaitForEachOther) {
  EXPECT_TRUE(OthersGoOn(/*freed_ahead_bytes=*/kElements * sizeof(float)));
}

TEST(CudaDeviceTest, AllocatingWaitsForWhatGoesWhereThatIsTooMuch) {
  EXPECT_FALSE(OthersGoOn(/*freed_ahead_bytes=*/kElements * sizeof(float) - 1));
}

TEST(CudaDeviceTest, WhereNoMemoryIsLeftAllocatingTriesWhatWasFreed) {
  OneDevice one(1);
  one.Allocate();
  one.runtime().FailCall(GpuCall::kAllocateAsync, 0,
                         absl::ResourceExhaustedError("none left"));
  EXPECT_THAT(one.device().Allocate(DType::kInt8, TensorShape::Vector(8)),
              IsOk());
}

// Sums, for each seed, that the collective stream makes of data written on two
// other streams.
std::vector<float> SumsOfStreams(bool is_ordered) {
  std::vector<float> sums;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    OneDevice one(seed);
    CudaDevice& device = one.device();
    const Tensor a = one.Allocate(), b = one.Allocate(), sum = one.Allocate();
    one.Fill(a, 0, device.collective_stream());
    one.Fill(b, 0, device.collective_stream());
    one.RunAll();
    one.Fill(a, 1, device.compute_stream());
    one.Fill(b, 10, device.copy_stream());
    for (const GpuStream stream :
         {device.compute_stream(), device.copy_stream()}) {
      if (!is_ordered) continue;
      EXPECT_THAT(device.Order(stream, device.collective_stream()), IsOk());
    }
    one.Sum(a, b, sum, device.collective_stream());
    one.RunAll();
    sums.push_back(one.Read(sum)[0]);
  }
  return sums;
}

TEST(CudaDeviceTest, OrderMakesAStreamWaitForAnother) {
  EXPECT_THAT(SumsOfStreams(/*is_ordered=*/true), Each(11));
  EXPECT_THAT(SumsOfStreams(/*is_ordered=*/false),
              testing::Contains(testing::Ne(11)));
}

TEST(CudaDeviceTest, AMarkIsDoneWhenTheStreamHasComeThere) {
  OneDevice one(1);
  const Tensor tensor = one.Allocate();
  one.Fill(tensor, 1, one.device().compute_stream());
  const auto mark = one.device().Mark(one.device().compute_stream());
  ASSERT_THAT(mark, IsOk());
  EXPECT_FALSE(*one.runtime().IsDone(mark->get()));
  one.RunAll();
  EXPECT_TRUE(*one.runtime().IsDone(mark->get()));
}

TEST(CudaDeviceTest, DoneRunsOnTheQueueWhereTheRuntimeMayBeCalled) {
  OneDevice one(1);
  std::vector<absl::Status> reported;
  ASSERT_THAT(one.device().NotifyWhenDone(one.device().compute_stream(),
                                          [&](const absl::Status& status) {
                                            reported.push_back(status);
                                            one.Allocate();
                                          }),
              IsOk());
  EXPECT_THAT(reported, IsEmpty());
  one.RunAll();
  ASSERT_THAT(reported, SizeIs(1));
  EXPECT_THAT(reported[0], IsOk());
  EXPECT_THAT(one.runtime().Mistakes(), IsEmpty());
}

TEST(CudaDeviceTest, DoneGetsTheErrorOfAGpuThatIsSpoiltBefore) {
  OneDevice one(1);
  std::vector<absl::Status> reported;
  const auto keep = [&](const absl::Status& status) {
    reported.push_back(status);
  };
  const GpuStream stream = one.device().compute_stream();
  one.runtime().FailStream(stream, absl::InternalError("illegal address"));
  ASSERT_THAT(one.device().NotifyWhenDone(stream, keep), IsOk());
  one.RunAll();
  const auto has_failed = IsInternal("illegal address");
  // Same as CUDA: a call must find the error first.
  EXPECT_THAT(reported, IsEmpty());
  EXPECT_THAT(one.device().Mark(stream), has_failed);
  one.RunAll();
  EXPECT_THAT(reported, ElementsAre(has_failed));
  EXPECT_THAT(one.device().NotifyWhenDone(stream, keep), has_failed);
  one.RunAll();
  EXPECT_THAT(reported, ElementsAre(has_failed, has_failed));
}

TEST(CudaDeviceTest, LackOfMemoryNamesTheDeviceAndTheTensor) {
  OneDevice one(1, /*memory_bytes=*/100);
  EXPECT_THAT(
      one.device().Allocate(DType::kInt64, TensorShape::Vector(100)),
      IsResourceExhausted("/job:worker/replica:0/task:0/device:GPU:0 for "
                          "int64[100]"));
}

TEST(CudaDeviceTest, LackOfMemoryIsNotTriedTwiceWhereNothingWasFreed) {
  OneDevice one(1);
  one.runtime().FailCall(GpuCall::kAllocateAsync, 0,
                         absl::ResourceExhaustedError("none left"));
  EXPECT_THAT(one.device().Allocate(DType::kInt8, TensorShape::Vector(8)),
              IsResourceExhausted("none left"));
}

// Runs hooks of tests inside calls.
class HookedRuntime : public FakeGpuRuntime {
 public:
  using FakeGpuRuntime::FakeGpuRuntime;

  // Lets the next allocation find no memory, and return after `before_return`.
  void FailNextAllocation(std::function<void()> before_return) {
    before_return_ = std::move(before_return);
    FailCall(GpuCall::kAllocateAsync, 0,
             absl::ResourceExhaustedError("none left"));
  }

  absl::StatusOr<void*> AllocateAsync(size_t num_bytes,
                                      GpuStream stream) override {
    auto memory = FakeGpuRuntime::AllocateAsync(num_bytes, stream);
    if (memory.ok() || before_return_ == nullptr) return memory;
    std::exchange(before_return_, nullptr)();
    return memory;
  }

 private:
  std::function<void()> before_return_;
};

// A device that has freed memory. No allocation waits for that memory yet.
class CudaDeviceOutOfMemoryTest : public testing::Test {
 protected:
  CudaDeviceOutOfMemoryTest() { EXPECT_THAT(Allocate(), IsOk()); }
  ~CudaDeviceOutOfMemoryTest() override {
    device_.reset();
    environment_.RunAll();
  }

  absl::StatusOr<Tensor> Allocate() {
    return device_->Allocate(DType::kInt8, TensorShape::Vector(8));
  }

  SimulatedEnvironment environment_{1};
  std::function<void()> before_record_;  // Runs in the next RecordEvent().
  HookedRuntime runtime_{{.on_record =
                              [this](GpuStream /*stream*/) {
                                auto call =
                                    std::exchange(before_record_, nullptr);
                                if (call != nullptr) call();
                                return absl::OkStatus();
                              },
                          .environment = environment_.get()}};
  std::unique_ptr<CudaDevice> device_ = *CudaDevice::Create(
      {.attributes = {.name = {.job = "worker", .type = "GPU"}},
       .runtime = &runtime_,
       .environment = environment_.get(),
       .staging = *PinnedPool::Create({.runtime = &runtime_})});
};

TEST_F(CudaDeviceOutOfMemoryTest, WhatAnotherHasMadeWaitForIsTriedToo) {
  absl::StatusOr<Tensor> other = absl::UnknownError("not called");
  runtime_.FailNextAllocation([&] {
    runtime_.FailNextAllocation(nullptr);
    other = Allocate();
  });
  EXPECT_THAT(Allocate(), IsOk());
  EXPECT_THAT(other, IsOk());
}

TEST_F(CudaDeviceOutOfMemoryTest, WhatAnotherIsMakingWaitForIsTriedToo) {
  absl::StatusOr<Tensor> other = absl::UnknownError("not called");
  std::thread thread;
  runtime_.FailNextAllocation([&] {
    // The first thread is about to order when the second finds no memory.
    before_record_ = [&] {
      BlockingCounter has_failed(1);
      runtime_.FailNextAllocation([&] { has_failed.DecrementCount(); });
      thread = std::thread([&] { other = Allocate(); });
      has_failed.Wait();
    };
  });
  EXPECT_THAT(Allocate(), IsOk());
  thread.join();
  EXPECT_THAT(other, IsOk());
}

TEST(CudaDeviceTest, AnAllocationThatCannotBeOrderedIsFreed) {
  for (int num_good = 0; num_good < 3; ++num_good) {
    OneDevice one(1);
    one.runtime().FailCall(GpuCall::kWaitForEvent, num_good,
                           absl::InternalError("no wait"));
    EXPECT_THAT(one.device().Allocate(DType::kInt8, TensorShape::Vector(8)),
                IsInternal("no wait"));
    one.RunAll();
    EXPECT_EQ(one.runtime().UsedBytes(0), 0);
  }
}

TEST(CudaDeviceTest, MemoryThatCannotBeFreedIsReported) {
  OneDevice one(1);
  one.runtime().FailCall(GpuCall::kFreeAsync, 0, absl::InternalError("stuck"));
  one.Allocate();
  EXPECT_THAT(one.device().free_status(), IsInternal("stuck"));
}

TEST(CudaDeviceTest, ATensorWithoutElementsNeedsNoMemory) {
  OneDevice one(1, /*memory_bytes=*/0);
  const auto tensor =
      one.device().Allocate(DType::kFloat32, TensorShape::Vector(0));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->num_elements(), 0);
}

TEST(CudaDeviceTest, TensorsMayOutliveTheDeviceAndNothingIsLeft) {
  OneDevice one(1);
  {
    const Tensor tensor = one.Allocate();
    one.Destroy();
    one.RunAll();
    EXPECT_EQ(one.runtime().UsedBytes(0), tensor.size_bytes());
  }
  one.RunAll();
  EXPECT_THAT(one.runtime().Leaks(), IsEmpty());
  EXPECT_THAT(one.runtime().Mistakes(), IsEmpty());
}

TEST(CudaDeviceTest, WrongOptionsAreRefused) {
  EXPECT_THAT(CudaDevice::Create({.attributes = {.name = {.type = "CPU"}}}),
              IsInvalidArgument("has the type GPU"));
  EXPECT_THAT(CudaDevice::Create({.attributes = {.name = {.type = "GPU"}}}),
              IsInvalidArgument("needs a GPU runtime"));
}

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
  EXPECT_THAT(take(1), IsInternal("illegal address"));
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
              IsResourceExhausted("out of memory"));
}

TEST_F(CudaDevicesTest, WhatFailsIsReturnedAndNothingIsLeft) {
  for (int num_good = 0; num_good < 30; ++num_good) {
    runtime_.FailCall(GpuCall::kCreateStream, num_good,
                      absl::InternalError("no stream"));
    EXPECT_THAT(CreateCudaDevices(Options()), IsInternal("no stream"));
  }
  EXPECT_THAT(runtime_.Leaks(), IsEmpty());
}

TEST_F(CudaDevicesTest, WithoutAGpuThereIsNoDevice) {
  FakeGpuRuntime runtime({.num_gpus = 0, .environment = environment_.get()});
  CudaDevicesOptions options = Options();
  options.runtime = &runtime;
  EXPECT_THAT(CreateCudaDevices(options), IsNotFound("no GPU"));
}

TEST_F(CudaDevicesTest, WrongOptionsAreRefused) {
  CudaDevicesOptions options = Options();
  options.devices_per_gpu = 0;
  EXPECT_THAT(CreateCudaDevices(options), IsInvalidArgument("not 0"));
  EXPECT_THAT(CreateCudaDevices({}), IsInvalidArgument("need a GPU runtime"));
}

// Tests collectives of the CPU's devices on groups of GPU devices.

// Expects that an all-reduce of two devices is refused with this status, and
// leaves nothing.
template <typename Matcher>
void ExpectRefused(const std::string& implementation, const Matcher& refusal,
                   const MergeOp& merge_op = {}) {
  FakeGpuGroup group({});
  CollectiveRequest request =
      group.Request(AllReduce{}, DType::kFloat32, /*num_elements=*/4);
  request.impl_details.implementation = implementation;
  request.merge_op = merge_op;
  std::vector<Tensor> outputs(group.size());
  for (int rank = 0; rank < group.size(); ++rank) {
    group.Call(rank, request, group.Allocate(rank, request.dtype, 4),
               &outputs[rank]);
  }
  group.RunAll();
  EXPECT_THAT(group.ended(), Each(Optional(refusal)));
  outputs.clear();
  EXPECT_THAT(group.Remains(), IsEmpty());
}

// Implementation without device needs.
class OfHostMemory : public CollectiveImplementationInterface {
 public:
  absl::Status InitializeCollectiveContext(CollectiveContext*) override {
    return absl::OkStatus();
  }
  void Run(const CollectiveContext&, StatusCallback done) override {
    std::move(done)(absl::OkStatus());
  }
};

REGISTER_COLLECTIVE(OfHostMemory,
                    Implemented<OfHostMemory>({
                        .collectives = {CollectiveType::kAllReduce},
                    }));

TEST(CudaGroupTest, WhatWorksInTheHostsMemoryRefusesThatOfGpus) {
  ExpectRefused("OfHostMemory",
                IsUnimplemented("OfHostMemory works in the host's memory; "
                                "/job:localhost/replica:0/task:0/device:GPU:"));
}

TEST(CudaGroupTest, ALauncherThatFailsEndsTheExecution) {
  ExpectRefused(
      "ShuffleReduce", IsDataLoss("op first failed: no luck"),
      *MergeOp::Custom(
          {.name = "first",
           .commutative = true,
           .apply = [](auto...) { return absl::OkStatus(); },
           .apply_on_gpu =
               [](auto...) { return absl::DataLossError("no luck"); }}));
}

TEST(CudaGroupTest, FunctionsOfTheHostAreRefused) {
  ExpectRefused(
      "RingReduce",
      IsUnimplemented("merge op \"first\"", "RingReduce", "apply_on_gpu"),
      *MergeOp::Custom({.name = "first",
                        .commutative = true,
                        .apply = [](auto...) { return absl::OkStatus(); }}));
}

TEST(CudaGroupTest, BarriersNeedNoneOfTheirMemory) {
  FakeGpuGroup group({.devices_per_gpu = 3});
  for (int rank = 0; rank < group.size(); ++rank) {
    group.Call(rank, group.Request(Barrier{}, DType::kFloat32, 0), Tensor(),
               nullptr);
  }
  group.RunAll();
  EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
  EXPECT_THAT(group.Remains(), IsEmpty());
}

TEST(CudaGroupTest, WhatRunsOnCpusAloneNamesWhatRunsOnGpus) {
  ExpectRefused("LocalReduce",
                IsInvalidArgument("LocalReduce runs on CPU, not on GPU",
                                  "GpuLocalReduce"));
}

// Runs small and large all-reduces by the chosen implementation, and expects
// OK.
void ExpectReduces(FakeGpuGroup::Options options) {
  options.memory_bytes = 1 << 26;
  for (const int num_elements : {1, 1 << 20}) {
    FakeGpuGroup group(options);
    std::vector<Tensor> outputs(group.size());
    for (int rank = 0; rank < group.size(); ++rank) {
      group.Call(rank, group.Request(AllReduce{}, DType::kInt8, num_elements),
                 group.Allocate(rank, DType::kInt8, num_elements),
                 &outputs[rank]);
    }
    group.RunAll();
    EXPECT_THAT(group.ended(), Each(Optional(IsOk())));
  }
}

TEST(CudaGroupTest, AmongAllAlgorithmsOneThatRunsOnGpusIsChosen) {
  ExpectReduces({});
}

TEST(CudaGroupTest, WithoutLinksOneThatNeedsNoneIsChosen) {
  ExpectReduces({.num_gpus = 2, .devices_per_gpu = 1, .link = [](int, int) {
                   return PeerLink::kNone;
                 }});
}

// Tests executions whose streams run at once: the last member's end then comes
// before the call that caused it has returned.

// Runs each work on another thread, and waits for it inside Schedule().
class PromptQueue : public WorkQueue {
 public:
  void Schedule(Work work) override { std::thread(std::move(work)).join(); }
  int num_workers() const override { return 1; }
};

// Runs an all-reduce among all devices. Each callback checks that nothing is
// left (FakeNcclTasks::Call).
void Reduce(const std::string& implementation, int num_tasks,
            int devices_per_gpu) {
  SCOPED_TRACE(absl::StrCat(implementation, " of ", num_tasks, " tasks with ",
                            devices_per_gpu, " devices on a GPU"));
  const SimulatedEnvironment simulated(1);
  PromptQueue queue;
  Environment environment = simulated.get();
  environment.queue = &queue;
  FakeNcclTasks tasks({.num_tasks = num_tasks,
                       .gpus_per_task = 1,
                       .devices_per_gpu = devices_per_gpu,
                       .tasks_with_nccl = 0,
                       .environment = &environment});
  CollectiveRequest request =
      tasks.Request(AllReduce{}, DType::kUint8, /*num_elements=*/24);
  request.impl_details.implementation = implementation;
  std::vector<Tensor> outputs(static_cast<size_t>(tasks.size()));
  for (int rank = 0; rank < tasks.size(); ++rank) {
    const Tensor input = tasks.Allocate(rank, DType::kUint8, request.shape);
    tasks.Write(rank, input, Bytes(24, static_cast<uint8_t>(rank + 1)));
    tasks.Call(rank, request, input, &outputs[static_cast<size_t>(rank)]);
  }
  EXPECT_THAT(tasks.ended(), Each(Optional(IsOk())));
  const int sum = tasks.size() * (tasks.size() + 1) / 2;
  for (int rank = 0; rank < tasks.size(); ++rank) {
    EXPECT_THAT(tasks.Read(rank, outputs[static_cast<size_t>(rank)]),
                Each(sum));
  }
  outputs.clear();
  EXPECT_THAT(tasks.Remains(), IsEmpty());
}

TEST(GpuPromptTest, NothingOfADeviceIsKeptWhenTheLastMemberEnds) {
  for (const std::string name :
       {"RingReduce", "TreeReduce", "RecursiveHalvingDoublingReduce"}) {
    for (const int size : {2, 3, 4}) {
      Reduce(name, /*num_tasks=*/1, size);
    }
  }
}

TEST(GpuPromptTest, NothingOfADeviceIsKeptWhereOthersGetItsBytesByTheHost) {
  for (const std::string name :
       {"RingReduce", "TreeReduce", "RecursiveHalvingDoublingReduce"}) {
    for (const int devices_per_gpu : {1, 2, 3}) {
      Reduce(name, /*num_tasks=*/2, devices_per_gpu);
    }
  }
}

}  // namespace cuda_device_test
}  // namespace tutti
