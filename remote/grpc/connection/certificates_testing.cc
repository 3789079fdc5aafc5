#include "remote/grpc/connection/certificates_testing.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace tutti {
namespace {

constexpr char kNewKey[] = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";

void Run(const std::string& command) {
  // Runs the test's own command.
  ASSERT_EQ(std::system(absl::StrCat(command, " 2>/dev/null").c_str()), 0)
      << command;
}

std::string MakeFolder(const std::string& name) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/", name);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace

TestCertificates::TestCertificates(const std::string& name)
    : folder_(MakeFolder(name)), ca_(absl::StrCat(folder_, "/ca.pem")) {
  Run(absl::StrCat("openssl req -x509 ", kNewKey, " -days 2 -subj /CN=", name,
                   " -keyout ", folder_, "/ca.key -out ", ca_));
}

TlsOptions TestCertificates::Issue(const std::string& subject) {
  return Issue(subject, /*days=*/2);
}

TlsOptions TestCertificates::IssueExpired(const std::string& subject) {
  return Issue(subject, /*days=*/-1);
}

TlsOptions TestCertificates::Issue(const std::string& subject, int days) {
  const std::string path = absl::StrCat(folder_, "/", ++num_issued_);
  std::ofstream(absl::StrCat(path, ".ext")) << "subjectAltName=DNS:" << subject;
  Run(absl::StrCat("openssl req ", kNewKey, " -subj /CN=", subject, " -keyout ",
                   path, ".key -out ", path, ".csr"));
  Run(absl::StrCat("openssl x509 -req -in ", path, ".csr -CA ", ca_, " -CAkey ",
                   folder_, "/ca.key -CAcreateserial -days ", days,
                   " -extfile ", path, ".ext -out ", path, ".pem"));
  return {.certificate = absl::StrCat(path, ".pem"),
          .key = absl::StrCat(path, ".key"),
          .ca = ca_};
}

}  // namespace tutti
