#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/cluster/gpus.h"

namespace tutti {
namespace no_cuda_gpus_test {

using ::testing::IsEmpty;

TEST(NoCudaGpusTest, ThereIsNoGpuAndTheReasonIsTheBuild) {
  const GpuReport report = GpusHere();
  EXPECT_FALSE(report.has_cuda);
  EXPECT_THAT(report.names, IsEmpty());
  EXPECT_EQ(report.why_none, "Tutti was built without CUDA");
}

TEST(NoCudaGpusTest, DevicesOnGpusAreRefusedWithTheReason) {
  EXPECT_THAT(DeviceMakerFor("CPU", {}).status(), IsOk());
  EXPECT_THAT(DeviceMakerFor("GPU", {}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "--device gpu: Tutti was built without CUDA"));
}

}  // namespace no_cuda_gpus_test
}  // namespace tutti
