#include "tools/launch/quiet_grpc.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "grpc/support/log.h"

namespace tutti {
namespace quiet_grpc_test {

std::string PrintedByGrpc() {
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);  // The default of gRPC.
  testing::internal::CaptureStderr();
  gpr_log(GPR_ERROR, "a line of gRPC");
  return testing::internal::GetCapturedStderr();
}

TEST(QuietGrpcTest, WhoeverAsksForLinesGetsThem) {
  SilenceGrpc([](const std::string& name) -> std::optional<std::string> {
    if (name == "GRPC_VERBOSITY") return "ERROR";
    return std::nullopt;
  });
  EXPECT_NE(PrintedByGrpc(), "");
  SilenceGrpc([](const std::string&) { return std::nullopt; });
  EXPECT_EQ(PrintedByGrpc(), "");
}

}  // namespace quiet_grpc_test
}  // namespace tutti
