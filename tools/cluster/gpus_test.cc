#include "tools/cluster/gpus.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tutti/environment.h"

namespace tutti {
namespace gpus_test {

using ::testing::IsEmpty;
using ::testing::Not;

TEST(GpusTest, ThereAreGpusOrAReason) {
  const GpuReport report = GpusHere();
  EXPECT_EQ(report.names.empty(), !report.why_none.empty());
}

TEST(GpusTest, DevicesOnGpusNeedOne) {
  const DefaultEnvironment environment(1);
  EXPECT_EQ(DeviceMakerFor("GPU", environment.get()).ok(),
            GpusHere().why_none.empty());
}

TEST(GpusTest, TheBuildSaysWhatItFoundOrWhyNot) {
  const GpuReport report = GpusHere();
  EXPECT_THAT(report.cuda, Not(IsEmpty()));
  EXPECT_THAT(report.nccl, Not(IsEmpty()));
  EXPECT_EQ(report.nccl_version.empty(), !report.why_no_nccl.empty());
}

}  // namespace gpus_test
}  // namespace tutti
