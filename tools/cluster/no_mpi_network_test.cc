#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tools/cluster/mpi_network.h"
#include "tutti/environment.h"

namespace tutti {
namespace no_mpi_network_test {

using ::testing::HasSubstr;

TEST(NoMpiNetworkTest, SaysWhatToInstallInThePlaceOfANetwork) {
  EXPECT_FALSE(HasMpi());
  EXPECT_FALSE(HasCudaAwareMpi());
  EXPECT_THAT(MpiNetwork(Environment()),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("install libopenmpi-dev and openmpi-bin and "
                                 "build it again, or say by --cluster who")));
}

}  // namespace no_mpi_network_test
}  // namespace tutti
