#include "absl/status/status.h"
#include "framework/environment.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"
#include "tools/mpi_network.h"

namespace tutti {
namespace {

using ::testing::HasSubstr;

TEST(NoMpiNetworkTest, SaysWhatToInstallInThePlaceOfANetwork) {
  EXPECT_FALSE(HasMpi());
  EXPECT_FALSE(HasCudaAwareMpi());
  EXPECT_THAT(MpiNetwork(Environment()),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("install libopenmpi-dev and openmpi-bin and "
                                 "build it again, or say by --cluster who")));
}

}  // namespace
}  // namespace tutti
