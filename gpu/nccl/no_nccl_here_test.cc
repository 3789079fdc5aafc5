#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gpu/nccl/nccl_here.h"
#include "gtest/gtest.h"
#include "tests/status_matchers.h"

namespace tutti {
namespace {

TEST(NoNcclHereTest, ThereIsNoNcclAndTheReasonIsTheBuild) {
  EXPECT_FALSE(HasNccl());
  EXPECT_THAT(NcclHere(), StatusIs(absl::StatusCode::kUnimplemented,
                                   "this was built without nccl.h"));
}

}  // namespace
}  // namespace tutti
