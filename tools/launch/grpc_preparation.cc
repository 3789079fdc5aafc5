#include "tools/launch/grpc_preparation.h"

#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <memory>

#include "absl/strings/str_cat.h"
#include "grpc/support/log.h"
#include "openssl/asn1.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "remote/grpc/connection/file_descriptor.h"
#include "remote/grpc/connection/openssl_at_exit.h"

namespace tutti {
namespace {

struct CloseFile {
  void operator()(FILE* file) const { fclose(file); }
};

struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using Certificate = std::unique_ptr<X509, FreeCertificate>;

// Null if the file holds no certificate.
Certificate ReadCertificate(const std::string& path) {
  const std::unique_ptr<FILE, CloseFile> file(fopen(path.c_str(), "re"));
  if (file == nullptr) return nullptr;
  return Certificate(PEM_read_X509(file.get(), nullptr, nullptr, nullptr));
}

}  // namespace

absl::Status CheckNotExpired(const std::string& path, absl::Time now) {
  KeepOpenSslAtExit();
  const Certificate certificate = ReadCertificate(path);
  if (certificate == nullptr) return absl::OkStatus();
  std::tm end = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    return absl::OkStatus();
  }
  const absl::Time expiry = absl::FromTM(end, absl::UTCTimeZone());
  if (now <= expiry) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      path, " expired on ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", expiry, absl::UTCTimeZone())));
}

bool IsAddressOfAnotherMachine(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> address(
      found, &freeaddrinfo);
  const FileDescriptor fd(
      socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, /*protocol=*/0));
  return fd.is_set() &&
         bind(fd.get(), address->ai_addr, address->ai_addrlen) != 0 &&
         errno == EADDRNOTAVAIL;
}

void SilenceGrpc(const Variables& variables) {
  if (variables("GRPC_VERBOSITY").has_value()) return;
  gpr_set_log_function([](gpr_log_func_args* /*line*/) {});
}

}  // namespace tutti
