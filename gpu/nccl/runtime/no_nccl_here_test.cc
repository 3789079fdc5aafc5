#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/gpu_devices.h"

namespace tutti {
namespace no_nccl_here_test {

TEST(NoNcclHereTest, ThereIsNoNcclAndTheReasonIsTheBuild) {
  EXPECT_FALSE(HasNccl());
  EXPECT_THAT(NcclHere(), StatusIs(absl::StatusCode::kUnimplemented,
                                   "this was built without nccl.h"));
}

}  // namespace no_nccl_here_test
}  // namespace tutti
