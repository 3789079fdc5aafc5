#include "gpu/runtime/cuda_status.h"

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace cuda_status_test {

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

}  // namespace cuda_status_test
}  // namespace tutti
