#include "remote/grpc/connection/tls_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "absl/status/status.h"
#include "remote/grpc/connection/test_certificates.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace tls_credentials_test {

using testing::HasSubstr;

std::optional<grpc_tls_version> demanded_version;

void RecordVersion(grpc_server_credentials* /*credentials*/,
                   grpc_tls_version version) {
  demanded_version = version;
}

TEST(TlsCredentialsTest, ServersDemandTls13) {
  TestCertificates ca("tls_demand");
  EXPECT_THAT(MakeCredentials(ca.Issue("task-0"), RecordVersion), IsOk());
  EXPECT_EQ(demanded_version, grpc_tls_version::TLS1_3);
}

TEST(TlsCredentialsTest, FailWhereTls13CannotBeDemanded) {
  TestCertificates ca("tls_no_demand");
  EXPECT_THAT(
      MakeCredentials(ca.Issue("task-0"), nullptr),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("grpc_ssl_server_credentials::set_min_tls_version")));
}

TEST(TlsCredentialsTest, NeedNoDemandWithoutTls) {
  EXPECT_THAT(MakeCredentials(TlsOptions(), nullptr), IsOk());
}

TEST(TlsCredentialsTest, TheLinkedGrpcTakesTheDemand) {
  EXPECT_NE(FindMinTlsVersionSetter(), nullptr);
}

}  // namespace tls_credentials_test
}  // namespace tutti
