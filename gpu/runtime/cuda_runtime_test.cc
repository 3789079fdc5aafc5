#include "gpu/runtime/cuda_runtime.h"

#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gpu/runtime/cuda_status.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace cuda_runtime_test {

// False also for a driver that does not work, e.g. because of a sanitizer.
bool HasDriver() {
  return !absl::IsUnavailable(CudaRuntime().NumGpus().status());
}

TEST(CudaRuntimeTest, WithoutADriverEveryCallSaysSo) {
  if (HasDriver()) GTEST_SKIP() << "there is a driver here";
  CudaRuntime runtime;
  EXPECT_THAT(runtime.NumGpus(),
              IsUnavailable("no NVIDIA driver is installed here"));
  const auto unavailable = [](const auto& text) { return IsUnavailable(text); };
  EXPECT_THAT(runtime.Properties(0), unavailable("on GPU 0"));
  EXPECT_THAT(runtime.LinkBetween(0, 1), unavailable("on GPU 0"));
  EXPECT_THAT(runtime.EnablePeerAccess(0, 1), unavailable("on GPU 0"));
  EXPECT_THAT(runtime.CreateStream(2), unavailable("on GPU 2"));
  EXPECT_THAT(runtime.CreateEvent(2), unavailable("on GPU 2"));
  EXPECT_THAT(runtime.AllocateAsync(8, {}), unavailable("on GPU 0"));
  EXPECT_THAT(runtime.AllocatePinned(8, 2), unavailable("on GPU 2"));
  EXPECT_THAT(runtime.AllocatePinnedOnGpu(8, 2), unavailable("on GPU 2"));
  float value = 0;
  EXPECT_THAT(runtime.CopyAsync(&value, &value, 4, {}),
              unavailable("on GPU 0"));
  EXPECT_THAT(runtime.LaunchCopy(
                  {.input = &value, .outputs = {&value}, .num_bytes = 4}, {}),
              unavailable("on GPU 0"));
  EXPECT_THAT(
      runtime.LaunchReduce(
          {.inputs = {&value}, .outputs = {&value}, .num_elements = 1}, {}),
      unavailable("on GPU 0"));
}

TEST(CudaRuntimeTest, ACallThatCannotBeQueuedGetsTheError) {
  if (HasDriver()) GTEST_SKIP() << "there is a driver here";
  CudaRuntime runtime;
  std::vector<absl::Status> reported;
  const absl::Status status = runtime.CallHost(
      [&](const absl::Status& error) { reported.push_back(error); }, {});
  EXPECT_THAT(status, IsUnavailable("on GPU 0"));
  EXPECT_THAT(reported, testing::ElementsAre(status));
}

TEST(CudaRuntimeTest, WrongArgumentsAreRefusedBeforeTheGpuIsAsked) {
  CudaRuntime runtime;
  EXPECT_THAT(runtime.LaunchReduce({}, {}), IsInvalidArgument("inputs, not 0"));
  EXPECT_THAT(runtime.LaunchCopy({}, {}), IsInvalidArgument("not 0"));
}

TEST(CudaStatusTest, NamesTheCallTheGpuAndWhatCudaSays) {
  EXPECT_THAT(CudaStatus(cudaErrorMemoryAllocation, "cudaCall", 3),
              IsResourceExhausted("cudaCall on GPU 3: out of memory"));
  EXPECT_THAT(CudaStatus(cudaErrorTooManyPeers, "cudaCall", 3),
              IsOutOfRange("peer"));
  EXPECT_THAT(CudaStatus(cudaErrorIllegalAddress, "cudaCall", 3),
              IsInternal("illegal"));
  EXPECT_THAT(CudaStatus(cudaSuccess, "cudaCall"), IsOk());
}

TEST(CudaStatusTest, OnlySomeErrorsSpoilTheGpu) {
  EXPECT_TRUE(SpoilsGpu(cudaErrorIllegalAddress));
  EXPECT_TRUE(SpoilsGpu(cudaErrorLaunchFailure));
  EXPECT_FALSE(SpoilsGpu(cudaSuccess));
  EXPECT_FALSE(SpoilsGpu(cudaErrorNotReady));
  EXPECT_FALSE(SpoilsGpu(cudaErrorMemoryAllocation));
  EXPECT_FALSE(SpoilsGpu(cudaErrorInvalidValue));
}

TEST(CudaStatusTest, GpusWithoutDeviceCodeAreNamedWithTheirCapability) {
  EXPECT_THAT(CheckCapability(2, 7, 5),
              IsUnimplemented("GPU 2 has compute capability 7.5"));
  EXPECT_THAT(CheckCapability(2, 8, 0), IsOk());
  EXPECT_THAT(CheckCapability(2, 10, 3), IsOk());
}

}  // namespace cuda_runtime_test
}  // namespace tutti
