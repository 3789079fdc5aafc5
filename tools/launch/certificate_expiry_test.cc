#include "tools/launch/certificate_expiry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>

#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509.h"
#include "tests/doubles/status_matchers.h"

namespace tutti {
namespace certificate_expiry_test {

using ::testing::EndsWith;

const absl::Time kExpiry = absl::FromCivil(
    absl::CivilSecond(2020, 1, 2, 3, 4, 5), absl::UTCTimeZone());

std::string PathOf(const std::string& name) {
  return ::testing::TempDir() + "/" + name;
}

// Writes a certificate that expires at kExpiry.
std::string WriteCertificate() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(),
                                                                &X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(kExpiry));
  X509_set_pubkey(certificate.get(), key.get());
  EXPECT_GT(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  std::string path = PathOf("certificate.pem");
  FILE* const file = fopen(path.c_str(), "w");
  EXPECT_EQ(PEM_write_X509(file, certificate.get()), 1);
  fclose(file);
  return path;
}

TEST(CertificateExpiryTest, AnExpiredCertificateIsNamedWithItsEnd) {
  const std::string path = WriteCertificate();
  EXPECT_THAT(CheckNotExpired(path, kExpiry), IsOk());
  EXPECT_THAT(
      CheckNotExpired(path, kExpiry + absl::Seconds(1)),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               EndsWith("certificate.pem expired on 2020-01-02 03:04:05 UTC")));
}

TEST(CertificateExpiryTest, WhatIsNoCertificateIsForOthersToRefuse) {
  const std::string path = PathOf("none.pem");
  std::ofstream(path) << "no certificate\n";
  EXPECT_THAT(CheckNotExpired(path, kExpiry), IsOk());
  EXPECT_THAT(CheckNotExpired(PathOf("missing.pem"), kExpiry), IsOk());
}

}  // namespace certificate_expiry_test
}  // namespace tutti
