#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gpu/device/cuda_device_options.h"
#include "gpu/runtime/pinned_pool.h"
#include "gpu/testing/fake_gpu_runtime.h"
#include "gtest/gtest.h"
#include "tests/doubles/simulated_environment.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/environment.h"
#include "tutti/gpu_devices.h"
#include "tutti/tensor.h"

namespace tutti {
namespace cuda_device_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
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
  void BeforeNextRecord(std::function<void()> call) {
    before_record_ = std::move(call);
  }

  absl::StatusOr<void*> AllocateAsync(size_t num_bytes,
                                      GpuStream stream) override {
    auto memory = FakeGpuRuntime::AllocateAsync(num_bytes, stream);
    if (memory.ok() || before_return_ == nullptr) return memory;
    std::exchange(before_return_, nullptr)();
    return memory;
  }
  absl::Status RecordEvent(GpuEvent event, GpuStream stream) override {
    if (before_record_ != nullptr) std::exchange(before_record_, nullptr)();
    return FakeGpuRuntime::RecordEvent(event, stream);
  }

 private:
  std::function<void()> before_return_, before_record_;
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
  HookedRuntime runtime_{{.environment = environment_.get()}};
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
    runtime_.BeforeNextRecord([&] {
      BlockingCounter has_failed(1);
      runtime_.FailNextAllocation([&] { has_failed.DecrementCount(); });
      thread = std::thread([&] { other = Allocate(); });
      has_failed.Wait();
    });
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

}  // namespace cuda_device_test
}  // namespace tutti
