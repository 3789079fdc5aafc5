#include "tools/commands/why_not_here.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace tutti {
namespace why_not_here_test {

const ImplementationTraits kOnGpus = {.device_types = {"GPU"}};
const ImplementationTraits kByNccl = {.device_types = {"GPU"},
                                      .device_needs = {.library = "NCCL"}};
const ImplementationTraits kByMpi = {.device_types = {"CPU"},
                                     .delegate = "MPI"};

BuildInfo WithGpu() { return {.gpus = {.names = {"Some GPU"}}}; }

TEST(WhyNotHereTest, CpuDevicesAreEverywhere) {
  EXPECT_EQ(WhyNotHere({}, {}), "");
  EXPECT_EQ(WhyNotHere({.device_types = {"CPU"}}, {}), "");
  EXPECT_EQ(WhyNotHere({.device_types = {"CPU", "GPU"}}, {}), "");
}

TEST(WhyNotHereTest, GpusAreNeededWithTheReasonForTheirAbsence) {
  const BuildInfo build = {.gpus = {.why_none = "no driver"}};
  EXPECT_EQ(WhyNotHere(kOnGpus, build), "needs a GPU: no driver");
  EXPECT_EQ(WhyNotHere(kByNccl, build), "needs a GPU: no driver");
  EXPECT_EQ(WhyNotHere(kOnGpus, WithGpu()), "");
}

TEST(WhyNotHereTest, NcclIsNeededWithTheReasonForItsAbsence) {
  BuildInfo build = WithGpu();
  EXPECT_EQ(WhyNotHere(kByNccl, build), "");
  build.gpus.why_no_nccl = "not installed";
  EXPECT_EQ(WhyNotHere(kByNccl, build), "needs NCCL: not installed");
  EXPECT_EQ(WhyNotHere(kOnGpus, build), "");
}

TEST(WhyNotHereTest, MpiNeedsMpirun) {
  EXPECT_EQ(WhyNotHere(kByMpi, {}),
            "needs processes of mpirun, which has not started this one");
  EXPECT_EQ(WhyNotHere(kByMpi, {.is_started_by_mpirun = true}), "");
}

TEST(WhyNotHereTest, APartThatIsNotLinkedComesFirst) {
  const ImplementationTraits traits = {
      .device_types = {"GPU"},
      .check_parts = [] { return absl::NotFoundError("no Other"); }};
  EXPECT_EQ(WhyNotHere(traits, {}), "cannot be made of its parts: no Other");
}

}  // namespace why_not_here_test
}  // namespace tutti
