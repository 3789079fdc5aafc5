#include "tools/launch/certificate_expiry.h"

#include <cstdio>
#include <ctime>
#include <memory>

#include "absl/strings/str_cat.h"
#include "openssl/asn1.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
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

}  // namespace tutti
