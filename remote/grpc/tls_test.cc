// Tests tasks with certificates, and peers with unfit certificates.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "remote/fake_services.h"
#include "remote/grpc/connection/test_certificates.h"
#include "remote/grpc/fake_peers.h"
#include "remote/grpc/test_tasks.h"
#include "tests/doubles/status_matchers.h"
#include "tutti/grpc_transport.h"

namespace tutti {
namespace tls_test {

using testing::AllOf;
using testing::HasSubstr;

// Two tasks: task 0 has a good certificate, task 1 the one under test. Tests
// both directions.
struct Pair {
  explicit Pair(const TlsOptions& zero, const TlsOptions& one)
      : tasks(2, [=](int task, GrpcTransportOptions& options) {
          options.tls = task == 0 ? zero : one;
        }) {
    tasks.StartAll();
  }
  absl::Status Call(int from, int to) {
    return CallAndWait(tasks.transport(from).control(), to, CleanupStep(1),
                       {.wait_until_reachable = true})
        .status();
  }
  absl::Status Pull(int from, int to) {
    const std::vector<std::byte> bytes = Pattern(100'000);
    WaitingSender sender;
    WaitingReceiver receiver(bytes.size());
    tasks.table(to).Provide(KeyOf(0), {.bytes = bytes, .sender = &sender});
    tasks.Request(from, to, KeyOf(0), bytes.size(), receiver);
    const absl::Status status = receiver.Wait();
    // Callers without permission do not get the offer.
    if (status.ok()) return sender.Wait();
    return status;
  }
  TestTasks tasks;
};

TEST(TlsTest, TasksWithTheirCertificatesTalk) {
  TestCertificates ca("ca");
  Pair pair(ca.Issue("task-0"), ca.Issue("task-1"));
  EXPECT_THAT(pair.Call(0, 1), IsOk());
  EXPECT_THAT(pair.Call(1, 0), IsOk());
  EXPECT_THAT(pair.Pull(0, 1), IsOk());
}

TEST(TlsTest, ACertificateOfAnotherTaskIsRefusedByBothSides) {
  TestCertificates ca("ca");
  Pair pair(ca.Issue("task-0"), ca.Issue("task-7"));
  EXPECT_THAT(pair.Call(0, 1),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       AllOf(HasSubstr("task 1 ("),
                             HasSubstr("certificate names another task"))));
  const auto is_refused =
      StatusIs(absl::StatusCode::kPermissionDenied,
               AllOf(HasSubstr("task-1"), HasSubstr("task-7")));
  EXPECT_THAT(pair.Call(1, 0), is_refused);
  EXPECT_THAT(pair.Pull(1, 0), is_refused);
}

TEST(TlsTest, ACertificateOfAnUnknownCaIsRefusedByBothSides) {
  TestCertificates ca("ca"), other("other");
  Pair pair(ca.Issue("task-0"), other.Issue("task-1"));
  EXPECT_THAT(pair.Call(0, 1), StatusIs(absl::StatusCode::kUnauthenticated,
                                        HasSubstr("task 1 (")));
  EXPECT_THAT(pair.Call(1, 0), StatusIs(absl::StatusCode::kUnauthenticated,
                                        HasSubstr("task 0 (")));
}

TEST(TlsTest, AnExpiredCertificateIsRefusedByBothSides) {
  TestCertificates ca("ca");
  Pair pair(ca.Issue("task-0"), ca.IssueExpired("task-1"));
  EXPECT_THAT(pair.Call(0, 1),
              StatusIs(absl::StatusCode::kUnauthenticated,
                       AllOf(HasSubstr("task 1 ("), HasSubstr("expired"))));
  const absl::Status status =
      CallAndWait(pair.tasks.transport(1).control(), 0, CleanupStep(1))
          .status();
  EXPECT_TRUE(absl::IsUnavailable(status) || absl::IsUnauthenticated(status))
      << status;
  EXPECT_THAT(status.message(), HasSubstr("task 0 ("));
}

TEST(TlsTest, PlaintextAndTlsDoNotMix) {
  TestCertificates ca("ca");
  Pair pair(ca.Issue("task-0"), TlsOptions());
  EXPECT_THAT(
      pair.Call(0, 1),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("task 1 ("), HasSubstr("does not speak TLS"))));
  const absl::Status status =
      CallAndWait(pair.tasks.transport(1).control(), 0, CleanupStep(1))
          .status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("task 0 ("));
}

TEST(TlsTest, GarbageAtTheTlsPortIsCutOff) {
  TestCertificates ca("ca");
  Pair pair(ca.Issue("task-0"), ca.Issue("task-1"));
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\0'),
        std::string("\x16\x03\x01\xff\xff") + std::string(70'000, 'x')}) {
    SendRaw(pair.tasks.address(0), bytes);
  }
  EXPECT_THAT(pair.Call(1, 0), IsOk());
}

TEST(TlsTest, ServesTls13Alone) {
  TestCertificates ca("ca");
  const TlsOptions good = ca.Issue("task-1");
  Pair pair(ca.Issue("task-0"), good);
  const auto connects = [&](const std::string& version) {
    return std::system(
               absl::StrCat("openssl s_client -connect ", pair.tasks.address(0),
                            " -cert ", good.certificate, " -key ", good.key,
                            " -CAfile ", good.ca, " -alpn h2 ", version,
                            " -verify_return_error </dev/null >/dev/null 2>&1")
                   .c_str()) == 0;
  };
  EXPECT_TRUE(connects(""));
  EXPECT_TRUE(connects("-tls1_3"));
  EXPECT_FALSE(connects("-tls1_2"));
  EXPECT_FALSE(connects("-no_tls1_3"));
}

TEST(TlsTest, SaysWhyAFileCannotBeRead) {
  TestCertificates ca("ca");
  const TlsOptions good = ca.Issue("task-0");
  const std::string empty = testing::TempDir() + "empty.pem";
  std::ofstream{empty};
  const std::pair<std::string, absl::Status> cases[] = {
      {empty, absl::InvalidArgumentError(absl::StrCat(
                  empty, " is empty; wanted a file in PEM format"))},
      {"/none",
       absl::NotFoundError("cannot read /none: No such file or directory")},
      {good.key + "/none",
       absl::FailedPreconditionError(
           absl::StrCat("cannot read ", good.key, "/none: Not a directory"))}};
  for (const auto& [path, wanted] : cases) {
    TestTasks tasks(1, [&, &path = path](int, GrpcTransportOptions& options) {
      options.tls = good;
      options.tls.certificate = path;
    });
    EXPECT_EQ(CreateGrpcTransport(tasks.Options(0)).status(), wanted);
  }
}

TEST(TlsTest, FilesThatDoNotFitAreAnErrorAtTheStart) {
  TestCertificates ca("ca");
  const TlsOptions good = ca.Issue("task-0");
  TlsOptions other_key = good;
  other_key.key = ca.Issue("task-0").key;
  TlsOptions no_certificate = good;
  no_certificate.certificate = good.key;
  TlsOptions no_key = good;
  no_key.key = good.certificate;
  TlsOptions no_ca = good;
  no_ca.ca = good.key;
  const std::pair<TlsOptions, std::string> cases[] = {
      {other_key, absl::StrCat("the key ", other_key.key, " is not that of ",
                               "the certificate ", good.certificate)},
      {no_certificate, absl::StrCat(good.key, " holds no certificate")},
      {no_key, absl::StrCat(good.certificate, " holds no key")},
      {no_ca, absl::StrCat("the CA ", good.key, " holds no certificate")}};
  for (const auto& [tls, wanted] : cases) {
    TestTasks tasks(1, [&tls = tls](int, GrpcTransportOptions& options) {
      options.tls = tls;
    });
    EXPECT_THAT(CreateGrpcTransport(tasks.Options(0)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::StartsWith(wanted)));
  }
}

}  // namespace tls_test
}  // namespace tutti
