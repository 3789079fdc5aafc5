#include "tools/cluster/cluster_mode.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace cluster_mode_test {

using ::testing::HasSubstr;

TEST(ClusterModeTest, SaysWhatToInstallInThePlaceOfMpi) {
  EXPECT_THAT(FindTransport(TransportRegistry(), {.transport = "MPI"}),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("install libopenmpi-dev and openmpi-bin and "
                                 "build it again, or say by --cluster who")));
}

TEST(ClusterModeTest, ListsTheTransportsInPlaceOfAnUnknownOne) {
  EXPECT_THAT(
      FindTransport(TransportRegistry::Global(), {.transport = "pigeon"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("\"pigeon\" is linked; there are: ")));
  EXPECT_THAT(FindTransport(TransportRegistry::Global(), {.transport = "gRPC"}),
              IsOk());
}

}  // namespace cluster_mode_test
}  // namespace tutti
